//! Cells, pages, and what they take.

use std::collections::HashMap;

use super::*;

/// Classes are ordered as sizes are, each size fits, and little is wasted.
#[test]
fn classes_fit_closely() {
    let mut before = (0, 0);
    for bytes in 1..=CELL_BYTES_MAX {
        let (class, cell) = class_of(bytes);
        assert!(
            cell >= bytes && cell.is_multiple_of(STEP),
            "{bytes} bytes in a cell of {cell}"
        );
        assert!(
            cell - bytes < STEP.max(bytes / STEPS_PER_DOUBLING),
            "{bytes}: {cell}"
        );
        assert!(before == (class, cell) || (before.0 < class && before.1 < cell));
        assert_eq!(class_of(cell), (class, cell));
        before = (class, cell);
    }
    assert!(before.0 < 200, "{} classes", before.0);
}

/// Cells do not overlap, keep their content, and their memory comes back.
#[test]
fn cells_keep_what_is_in_them() {
    let mut arena = Arena::default();
    let mut kept: HashMap<u32, (Handle, usize)> = HashMap::new();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for step in 0..60_000_u32 {
        // Grows for a while, then shrinks.
        if random(100) < if step < 30_000 { 70 } else { 30 } {
            let bytes = match random(50) {
                0 => random(200_000) + 9,
                1..10 => random(5000) + 9,
                _ => random(300) + 9,
            };
            let handle = arena.add(bytes);
            let cell = arena.get_mut(handle);
            assert!(cell.len() >= bytes);
            cell.fill(step.to_le_bytes()[0]);
            cell[..4].copy_from_slice(&step.to_ne_bytes());
            kept.insert(step, (handle, bytes));
        } else if let Some(key) = kept.keys().copied().nth(random(kept.len().max(1))) {
            let (handle, bytes) = kept.remove(&key).unwrap();
            let cell = arena.get(handle);
            assert_eq!(cell[..4], key.to_ne_bytes());
            assert!(cell[4..bytes].iter().all(|byte| *byte == key.to_le_bytes()[0]));
            arena.remove(handle);
        }
    }
    let stored: usize = kept.values().map(|(_, bytes)| *bytes).sum();
    assert!(arena.used_bytes() >= stored);
    for (handle, _) in kept.values() {
        arena.remove(*handle);
    }
    assert_eq!((arena.used_bytes, arena.held_bytes), (0, 0));
    assert_eq!(arena.vacant.len(), arena.pages.len());
}

/// A full arena holds little more than what is in it.
#[test]
fn pages_are_full() {
    for (bytes, count) in [(152, 200_000), (40, 50_000), (3000, 20_000), (60_000, 500)] {
        let mut arena = Arena::default();
        (0..count).for_each(|_| _ = arena.add(bytes));
        let stored = bytes * count;
        let held = arena.held_bytes();
        assert!(held < stored + stored / 8 + 20_000, "{held} for {stored}");
        assert!(arena.used_bytes() <= held);
    }
}

/// One entry that comes and goes at the edge of a page does not cost a page each time.
#[test]
fn no_page_comes_and_goes_with_one_entry() {
    let mut arena = Arena::default();
    while arena.pages.len() < 20 || !arena.classes.last().is_some_and(|class| class.open.is_empty()) {
        arena.add(100);
    }
    let first = arena.add(100);
    let held = arena.held_bytes();
    arena.remove(first);
    assert_eq!(arena.held_bytes(), held);
    let again = arena.add(100);
    assert_eq!((again, arena.held_bytes()), (first, held));
}

/// The end of the numbers is announced, and is none any more when a page goes.
#[test]
fn capacity_is_known() {
    let mut arena = Arena::default();
    let large = CELL_BYTES_MAX + 1;
    let mut handles: Vec<Handle> = (1..PAGES_MAX).map(|_| arena.add(large)).collect();
    assert!(!arena.is_at_capacity());
    handles.push(arena.add(large));
    assert!(arena.is_at_capacity());
    arena.remove(handles[17]);
    assert!(!arena.is_at_capacity());
}

impl Arena {
    /// These handles, and no others, are in use, and the counts say so.
    pub(in crate::keyspace) fn check(&self, handles: &std::collections::HashSet<Handle>) {
        let of_class = |class: usize| move |page: &&Page| !page.cells.is_empty() && page.class == class;
        for (class, counted) in self.classes.iter().enumerate() {
            let live: usize = self
                .pages
                .iter()
                .filter(of_class(class))
                .map(|page| usize::from(page.live))
                .sum();
            assert_eq!(live, counted.live, "class {class}");
            let cells: usize = self
                .pages
                .iter()
                .filter(of_class(class))
                .map(Page::capacity)
                .sum();
            assert_eq!(cells, counted.cells, "class {class}");
            let open = self
                .pages
                .iter()
                .filter(of_class(class))
                .filter(|page| !page.is_full() && page.live > 0 && !page.leaving)
                .count();
            assert_eq!(open, counted.open.len(), "class {class}");
        }
        let pages = || self.pages.iter().filter(|page| !page.cells.is_empty());
        assert_eq!(
            pages().map(|page| usize::from(page.live)).sum::<usize>(),
            handles.len()
        );
        assert_eq!(
            pages().map(|page| held(page.cells.len())).sum::<usize>(),
            self.held_bytes
        );
        let used = handles.iter().map(|handle| match &self.pages[handle.page()] {
            page if page.class == SINGLE => held(page.cell_bytes),
            page => page.cell_bytes,
        });
        assert_eq!(used.sum::<usize>(), self.used_bytes);
    }
}
