//! Where the bytes of entries stand: pages of equal cells.
//!
//! # Vocabulary
//!
//! * **cell**: room for one entry. Sizes up to 512 bytes go in steps of 8, larger ones in sixteenths of a power of two.
//! * **page**: cells of one size side by side in one allocation, at most 256 KiB. What is larger than
//!   [`CELL_BYTES_MAX`] has a page of its own, exactly as long as needed.
//! * **handle**: 32 bits that name a cell. A table slot or an index holds four bytes instead of a pointer of eight or
//!   sixteen, and a cell has no header of an allocator: of a million entries, both together are a fifth of their memory.
//! * **open page**: one with a cell to give away.
//! * **to evacuate** a page: to move what is left in it elsewhere, so that it goes back to the allocator.
//!
//! # Invariants
//!
//! 1. A handle that was given out names its cell until it is freed; the arena moves nothing by itself.
//! 2. Memory of a page that was never used is never touched: what is resident grows with what is stored.
//! 3. A page whose cells are all free goes back to the allocator, save for one of each size while others of that size are
//!    in use (so that one entry that comes and goes does not cost a page each time).
//! 4. The first pages of a size are small and later ones larger: a page that is not full wastes a sixteenth of what its size
//!    has in use, at most.
//!
//! # Pages that are partly in use
//!
//! A change of sizes leaves pages of which little is in use, as with any allocator by size classes. Whoever owns the cells
//! can move them: [`Arena::begin_evacuation`] names a page that is worth it and gives none of its cells away any more.
//! [`Arena::held_bytes`] says what pages take, [`Arena::used_bytes`] what is stored.
//!
//! Deliberately absent: what a cell contains.

mod evacuation;

use std::mem::size_of;

pub(super) use self::evacuation::Evacuation;

use super::memory::held;

/// Larger entries have a page of their own.
pub(super) const CELL_BYTES_MAX: usize = 64 << 10;
/// Sizes up to this go in steps of [`STEP`].
const FINE_BYTES_MAX: usize = 512;
const STEP: usize = 8;
/// Steps in each doubling above.
const STEPS_PER_DOUBLING: usize = 16;
const PAGE_BYTES_MAX: usize = 256 << 10;
const PAGE_BYTES_MIN: usize = 1 << 10;
/// Pages come in few sizes, as the allocator keeps room for each size that it is asked for: 1, 4, 16, 64 and 256 KiB.
const PAGE_GROWTH: usize = 4;
/// Of a handle's 32 bits, those that name the cell in its page.
const CELL_BITS: u32 = 12;
const CELLS_MAX: usize = 1 << CELL_BITS;
/// With so many pages in use nothing more should be stored. What one command stores beyond it still has numbers.
const PAGES_MAX: usize = if cfg!(test) {
    1000
} else {
    (1 << (u32::BITS - CELL_BITS)) - (1 << 15)
};
/// Fewer cells than this do not pay for a page.
const CELLS_MIN: usize = 4;
const NO_CELL: u16 = u16::MAX;
const NOT_OPEN: u32 = u32::MAX;
/// The class of pages with one entry of any size.
const SINGLE: usize = usize::MAX;

/// Names a cell. Ordered by nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle(u32);

impl Handle {
    fn new(page: usize, cell: usize) -> Self {
        let page = u32::try_from(page)
            .ok()
            .filter(|page| *page < 1 << (u32::BITS - CELL_BITS))
            .expect(
                "a million pages of 256 KiB, or of larger entries, are more memory than one shard can have",
            );
        let cell = u32::try_from(cell).expect("a page has at most 4096 cells");
        Self(page << CELL_BITS | cell)
    }

    fn page(self) -> usize {
        (self.0 >> CELL_BITS) as usize
    }

    fn cell(self) -> usize {
        self.0 as usize % CELLS_MAX
    }

    /// As the number that an index keeps.
    pub(super) fn to_bits(self) -> u32 {
        self.0
    }

    pub(super) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[derive(Debug)]
struct Page {
    cells: Box<[u8]>,
    cell_bytes: usize,
    class: usize,
    /// Cells in use.
    live: u16,
    /// Cells from here on were never used.
    fresh: u16,
    /// The first of the cells that were freed; each holds the number of the next in its first two bytes.
    free: u16,
    /// Where the page stands in its class's list of open ones.
    open_at: u32,
    /// It is being evacuated: nothing comes in.
    leaving: bool,
}

impl Page {
    fn capacity(&self) -> usize {
        self.cells.len() / self.cell_bytes
    }

    fn cell(&self, cell: usize) -> &[u8] {
        let at = cell * self.cell_bytes;
        &self.cells[at..at + self.cell_bytes]
    }

    fn cell_mut(&mut self, cell: usize) -> &mut [u8] {
        let at = cell * self.cell_bytes;
        &mut self.cells[at..at + self.cell_bytes]
    }

    /// Gives a cell away; there is one.
    fn take(&mut self) -> usize {
        self.live += 1;
        if self.free == NO_CELL {
            self.fresh += 1;
            return usize::from(self.fresh - 1);
        }
        let cell = usize::from(self.free);
        let next = self.cell(cell).first_chunk().expect("a cell has 8 bytes or more");
        self.free = u16::from_ne_bytes(*next);
        cell
    }

    fn give_back(&mut self, cell: usize) {
        let next = self.free.to_ne_bytes();
        self.cell_mut(cell)[..2].copy_from_slice(&next);
        self.free = u16::try_from(cell).expect("a page has at most 4096 cells");
        self.live -= 1;
    }

    fn is_full(&self) -> bool {
        usize::from(self.live) == self.capacity()
    }
}

/// Cells of one size.
#[derive(Clone, Debug, Default)]
struct Class {
    /// Numbers of the pages with a free cell and one in use.
    open: Vec<u32>,
    /// An empty page that is kept for the next entry.
    spare: Option<u32>,
    /// Cells in use.
    live: usize,
    /// Cells of all its pages.
    cells: usize,
}

/// All cells of a database.
#[derive(Debug, Default)]
pub(super) struct Arena {
    pages: Vec<Page>,
    /// Numbers of pages that were given back.
    vacant: Vec<u32>,
    classes: Vec<Class>,
    /// Where the search for a sparse page goes on.
    look: usize,
    used_bytes: usize,
    held_bytes: usize,
}

/// The class of a size, and the size of its cells.
fn class_of(bytes: usize) -> (usize, usize) {
    if bytes <= FINE_BYTES_MAX {
        let class = bytes.div_ceil(STEP).max(1);
        return (class, class * STEP);
    }
    // 2^doubling < bytes <= 2^(doubling + 1)
    let doubling = (bytes - 1).ilog2();
    let base = 1_usize << doubling;
    let step = base / STEPS_PER_DOUBLING;
    let steps = (bytes - base).div_ceil(step);
    let doublings = (doubling - FINE_BYTES_MAX.ilog2()) as usize;
    (
        FINE_BYTES_MAX / STEP + doublings * STEPS_PER_DOUBLING + steps,
        base + steps * step,
    )
}

impl Arena {
    /// A cell of at least `bytes` bytes, whose content is arbitrary, and how long it is.
    pub(super) fn add(&mut self, bytes: usize) -> Handle {
        if bytes > CELL_BYTES_MAX {
            let page = self.add_page(SINGLE, bytes, 1);
            self.used_bytes += held(bytes);
            return Handle::new(page, self.pages[page].take());
        }
        let (class, cell_bytes) = class_of(bytes);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, Class::default());
        }
        let Class { open, spare, .. } = &mut self.classes[class];
        let number = match open.last() {
            Some(number) => *number as usize,
            None => {
                let number = spare.take();
                let number =
                    number.map_or_else(|| self.new_page(class, cell_bytes), |number| number as usize);
                self.open(number);
                number
            }
        };
        self.used_bytes += cell_bytes;
        self.classes[class].live += 1;
        let page = &mut self.pages[number];
        let cell = page.take();
        if page.is_full() {
            self.close(number);
        }
        Handle::new(number, cell)
    }

    /// Frees a cell.
    pub(super) fn remove(&mut self, handle: Handle) {
        let number = handle.page();
        let page = &mut self.pages[number];
        let (class, was_full) = (page.class, page.is_full());
        page.give_back(handle.cell());
        let is_empty = page.live == 0;
        if class == SINGLE {
            self.used_bytes -= held(page.cell_bytes);
            self.release(number);
            return;
        }
        self.used_bytes -= page.cell_bytes;
        self.classes[class].live -= 1;
        if page.leaving {
            if is_empty {
                page.leaving = false;
                self.release(number);
            }
            return;
        }
        if is_empty && !was_full {
            self.close(number);
        }
        if is_empty {
            self.set_aside(number);
        } else if was_full {
            self.open(number);
        }
    }

    pub(super) fn get(&self, handle: Handle) -> &[u8] {
        self.pages[handle.page()].cell(handle.cell())
    }

    pub(super) fn get_mut(&mut self, handle: Handle) -> &mut [u8] {
        self.pages[handle.page()].cell_mut(handle.cell())
    }

    /// Whether the numbers of pages come to their end, at about a million pages.
    pub(super) fn is_at_capacity(&self) -> bool {
        self.pages.len() - self.vacant.len() >= PAGES_MAX
    }

    /// Bytes of the cells in use.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes + self.books_bytes()
    }

    /// Bytes of all pages.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes + self.books_bytes()
    }

    /// Gives back up to `budget` pages of an arena that is no longer used; true when nothing is left.
    pub(super) fn discard(&mut self, budget: &mut usize) -> bool {
        while *budget > 0 && self.pages.pop().is_some() {
            *budget -= 1;
        }
        self.pages.is_empty()
    }

    fn books_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Page>()
            + self.vacant.capacity() * size_of::<u32>()
            + self.classes.capacity() * size_of::<Class>()
    }

    /// An empty page is kept for the next entry of its size, or goes back when there is one already, or none in use.
    fn set_aside(&mut self, number: usize) {
        let Class { spare, live, .. } = &mut self.classes[self.pages[number].class];
        if *live > 0 && spare.is_none() {
            *spare = Some(page_number(number));
            return;
        }
        let spare = if *live == 0 { spare.take() } else { None };
        self.release(number);
        if let Some(spare) = spare {
            self.release(spare as usize);
        }
    }

    fn new_page(&mut self, class: usize, cell_bytes: usize) -> usize {
        let cells = self.new_page_cells(class, cell_bytes);
        self.add_page(class, cell_bytes, cells)
    }

    /// How many cells the next page of a class gets.
    fn new_page_cells(&self, class: usize, cell_bytes: usize) -> usize {
        let sixteenth = self.classes[class].live * cell_bytes / 16;
        let mut page_bytes = PAGE_BYTES_MIN;
        while page_bytes < PAGE_BYTES_MAX && page_bytes * PAGE_GROWTH <= sixteenth {
            page_bytes *= PAGE_GROWTH;
        }
        let least = if page_bytes == PAGE_BYTES_MAX {
            CELLS_MIN
        } else {
            1
        };
        (page_bytes / cell_bytes).clamp(least, CELLS_MAX)
    }

    fn add_page(&mut self, class: usize, cell_bytes: usize, cells: usize) -> usize {
        // Zeroed memory comes untouched from the system, where it can.
        let page = Page {
            cells: vec![0; cell_bytes * cells].into_boxed_slice(),
            cell_bytes,
            class,
            live: 0,
            fresh: 0,
            free: NO_CELL,
            open_at: NOT_OPEN,
            leaving: false,
        };
        self.held_bytes += held(page.cells.len());
        if let Some(class) = self.classes.get_mut(class) {
            class.cells += cells;
        }
        match self.vacant.pop() {
            Some(number) => {
                self.pages[number as usize] = page;
                number as usize
            }
            None => {
                self.pages.push(page);
                self.pages.len() - 1
            }
        }
    }

    fn release(&mut self, number: usize) {
        let page = &mut self.pages[number];
        if let Some(class) = self.classes.get_mut(page.class) {
            class.cells -= page.cells.len() / page.cell_bytes;
        }
        let cells = std::mem::take(&mut page.cells);
        self.held_bytes -= held(cells.len());
        self.vacant.push(page_number(number));
    }

    /// Puts a page on the list of open ones.
    fn open(&mut self, number: usize) {
        let page = &mut self.pages[number];
        let open = &mut self.classes[page.class].open;
        page.open_at = page_number(open.len());
        open.push(page_number(number));
    }

    /// Takes a page from the list of open ones.
    fn close(&mut self, number: usize) {
        let page = &mut self.pages[number];
        let at = std::mem::replace(&mut page.open_at, NOT_OPEN);
        let open = &mut self.classes[page.class].open;
        open.swap_remove(at as usize);
        if let Some(moved) = open.get(at as usize) {
            self.pages[*moved as usize].open_at = at;
        }
    }
}

fn page_number(number: usize) -> u32 {
    u32::try_from(number).expect("a handle holds its page's number in 20 bits")
}

#[cfg(test)]
mod tests;
