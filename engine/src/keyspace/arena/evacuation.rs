//! Emptying pages that are partly in use: which one, and what is left to do there. Moving the cells is their owner's part.

use super::{Arena, Class, Handle};

/// Pages of one size that are looked at for one to evacuate.
const OPEN_PAGES_SEEN: usize = 16;

/// How far the evacuation of a page has come.
#[derive(Debug)]
pub(in crate::keyspace) struct Evacuation {
    page: usize,
    next: usize,
    end: usize,
}

impl Arena {
    /// The page whose evacuation gains most. A gain it must be, or the work would never end: what is left in it has to fit
    /// the free cells of its size elsewhere, or new pages of half its length. Looks at a few pages of each size, at others
    /// each time.
    fn sparsest(&mut self) -> Option<usize> {
        self.look = self.look.wrapping_add(OPEN_PAGES_SEEN);
        let mut best = None;
        for (number, class) in self.classes.iter().enumerate() {
            let Class {
                open, cells, live, ..
            } = class;
            for step in 0..open.len().min(OPEN_PAGES_SEEN) {
                let candidate = open[(self.look.wrapping_add(step)) % open.len()] as usize;
                let page = &self.pages[candidate];
                let page_live = usize::from(page.live);
                let page_free = page.capacity() - page_live;
                let free_elsewhere = (cells - live).saturating_sub(page_free);
                let new_page = self.new_page_cells(number, page.cell_bytes);
                let gains = page_live <= free_elsewhere
                    || page_live.next_multiple_of(new_page) <= page.capacity() / 2;
                let gain = page_free * page.cell_bytes;
                if gains && page_free >= page_live && best.is_none_or(|(most, _)| gain > most) {
                    best = Some((gain, candidate));
                }
            }
        }
        best.map(|(_, number)| number)
    }

    /// Chooses a page to be evacuated and gives none of its cells away any more: how many of its cells, from the first on,
    /// may be in use. When the last one has been freed the page goes back by itself.
    pub(in crate::keyspace) fn begin_evacuation(&mut self) -> Option<Evacuation> {
        let number = self.sparsest()?;
        self.close(number);
        let page = &mut self.pages[number];
        page.leaving = true;
        Some(Evacuation {
            page: number,
            next: 0,
            end: usize::from(page.fresh),
        })
    }

    /// The next cell of a page that is being evacuated, in use or not; none when there is nothing left to do.
    pub(in crate::keyspace) fn next_to_move(&self, evacuation: &mut Evacuation) -> Option<Handle> {
        // The page may have gone, and its number to another one, because its entries were removed meanwhile.
        if evacuation.next == evacuation.end || !self.pages[evacuation.page].leaving {
            return None;
        }
        evacuation.next += 1;
        Some(Handle::new(evacuation.page, evacuation.next - 1))
    }

    /// Gives an empty page that was kept for the next entry back; false when there is none.
    pub(in crate::keyspace) fn release_spare(&mut self) -> bool {
        let spare = self.classes.iter_mut().find_map(|class| class.spare.take());
        if let Some(number) = spare {
            self.release(number as usize);
        }
        spare.is_some()
    }
}
