//! `--only`: which parts of the benchmark run. Words of one kind add up, kinds restrict each other: `rates,always,c50` is
//! all phases under `always` at 50 connections, `rates,d1,d16` the same as `rates`.

use super::rates::Shape;
use super::wire::Phase;
use crate::process::Policy;

/// Words with the kind that they belong to, and what they choose, for the help.
const WORDS: [(&str, Kind); 14] = [
    ("rates", Kind::Part),
    ("latency", Kind::Part),
    ("insert", Kind::Part),
    ("snapshot", Kind::Part),
    ("always", Kind::Policy),
    ("everysec", Kind::Policy),
    ("c1", Kind::Connections),
    ("c50", Kind::Connections),
    ("d1", Kind::Depth),
    ("d16", Kind::Depth),
    ("begin", Kind::Phase),
    ("probe", Kind::Phase),
    ("complete", Kind::Phase),
    ("replay", Kind::Phase),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Part,
    Policy,
    Connections,
    Depth,
    Phase,
}

/// The chosen words; none means everything.
#[derive(Clone, Debug, Default)]
pub struct Only(Vec<&'static str>);

impl Only {
    /// Reads words that are separated by commas. The error names the ones that there are.
    pub fn parse(text: &str) -> Result<Only, String> {
        let mut chosen = Vec::new();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let known = WORDS.iter().find(|(known, _)| *known == word);
            let (known, _) = known.ok_or_else(|| {
                let all: Vec<&str> = WORDS.iter().map(|(known, _)| *known).collect();
                format!("`{word}` is none of {}", all.join(", "))
            })?;
            chosen.push(*known);
        }
        Ok(Only(chosen))
    }

    /// Whether everything was asked for.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// `rates`, `latency`, `insert`, `snapshot`.
    pub fn part(&self, word: &str) -> bool {
        self.has(Kind::Part, word)
    }

    /// Of the part `rates`; the others run under `always`.
    pub fn policy(&self, policy: Policy) -> bool {
        self.has(Kind::Policy, policy.word())
    }

    /// Of the part `rates`.
    pub fn shape(&self, shape: Shape) -> bool {
        self.has(Kind::Connections, &format!("c{}", shape.connections))
            && self.has(Kind::Depth, &format!("d{}", shape.depth))
    }

    /// Of the part `rates`, with what a phase needs before it: keys that were begun, and completed for a replay.
    pub fn phase(&self, phase: Phase) -> bool {
        match phase {
            Phase::Begin => true,
            Phase::Complete => self.has(Kind::Phase, "complete") || self.has(Kind::Phase, "replay"),
            Phase::Probe | Phase::Replay | Phase::Ping => self.has(Kind::Phase, phase.word()),
        }
    }

    fn has(&self, kind: Kind, word: &str) -> bool {
        let is_kind = |chosen: &str| WORDS.iter().any(|(known, its)| *known == chosen && *its == kind);
        self.0.contains(&word) || !self.0.iter().any(|chosen| is_kind(chosen))
    }
}

#[cfg(test)]
mod tests {
    use super::{Only, Phase, Policy, Shape};

    #[test]
    fn words_of_a_kind_add_up_and_kinds_restrict() {
        let shapes = |text: &str| -> Vec<(usize, u64)> {
            let only = Only::parse(text).unwrap();
            let chosen = Shape::ALL.into_iter().filter(|shape| only.shape(*shape));
            chosen.map(|shape| (shape.connections, shape.depth)).collect()
        };
        for (text, expected) in [
            ("", vec![(1, 1), (1, 16), (50, 1), (50, 16)]),
            ("always,begin", vec![(1, 1), (1, 16), (50, 1), (50, 16)]),
            ("c50", vec![(50, 1), (50, 16)]),
            ("c50,d1", vec![(50, 1)]),
            ("d1,d16,c1", vec![(1, 1), (1, 16)]),
        ] {
            assert_eq!(shapes(text), expected, "{text}");
        }
    }

    #[test]
    fn a_phase_brings_what_it_needs() {
        let only = Only::parse("rates,always,replay").unwrap();
        let phases: Vec<Phase> = Phase::JOB
            .into_iter()
            .filter(|phase| only.phase(*phase))
            .collect();
        assert_eq!(phases, [Phase::Begin, Phase::Complete, Phase::Replay]);
        assert!(only.policy(Policy::Always) && !only.policy(Policy::Everysec));
        assert!(only.part("rates") && !only.part("insert"));
        assert!(Only::parse("").unwrap().part("insert"));
        assert!(Only::parse("fast").unwrap_err().contains("is none of rates"));
    }
}
