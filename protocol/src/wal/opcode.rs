//! The kinds of records. Never renumbered; an unknown one stops a reader with "newer format" and is never skipped.

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// A string under a key, with its deadline.
    StringPut = 1,
    /// A key goes, whatever it holds.
    Delete = 2,
    /// A key's deadline, nothing else.
    DeadlinePut = 3,
    /// Fields of a hash, and the key's deadline.
    HashPut = 4,
    /// Fields of a hash go; the key goes with its last field.
    HashDelete = 5,
    /// All keys of one database go.
    FlushDb = 6,
    /// All keys of all databases go.
    FlushAll = 7,
    /// Several of the above and 53, all or nothing.
    Transaction = 32,
    /// A primary begins its reign.
    EpochStart = 48,
    /// Who counts for promises and acknowledgements, and how many must agree.
    Members = 49,
    /// The time, and nothing else.
    Clock = 50,
    /// A transition of an IDEM record: the value and its deadline, together.
    IdempotencyPut = 53,
}

impl Opcode {
    /// Every kind, in the order of the bytes.
    pub const ALL: [Opcode; 12] = [
        Opcode::StringPut,
        Opcode::Delete,
        Opcode::DeadlinePut,
        Opcode::HashPut,
        Opcode::HashDelete,
        Opcode::FlushDb,
        Opcode::FlushAll,
        Opcode::Transaction,
        Opcode::EpochStart,
        Opcode::Members,
        Opcode::Clock,
        Opcode::IdempotencyPut,
    ];

    /// The byte on disk.
    pub const fn to_byte(self) -> u8 {
        self as u8
    }

    /// The kind of a byte, `None` for one that this version does not know.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|opcode| opcode.to_byte() == byte)
    }

    /// The name that tools print.
    pub const fn name(self) -> &'static str {
        match self {
            Opcode::StringPut => "StringPut",
            Opcode::Delete => "Delete",
            Opcode::DeadlinePut => "DeadlinePut",
            Opcode::HashPut => "HashPut",
            Opcode::HashDelete => "HashDelete",
            Opcode::FlushDb => "FlushDb",
            Opcode::FlushAll => "FlushAll",
            Opcode::Transaction => "Transaction",
            Opcode::EpochStart => "EpochStart",
            Opcode::Members => "Members",
            Opcode::Clock => "Clock",
            Opcode::IdempotencyPut => "IdempotencyPut",
        }
    }

    /// True for what may stand inside a Transaction.
    pub const fn is_transactional(self) -> bool {
        matches!(
            self,
            Opcode::StringPut
                | Opcode::Delete
                | Opcode::DeadlinePut
                | Opcode::HashPut
                | Opcode::HashDelete
                | Opcode::FlushDb
                | Opcode::FlushAll
                | Opcode::IdempotencyPut
        )
    }
}

/// Why a key was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteReason {
    /// A command said so.
    Command,
    /// Memory was short.
    Evicted,
}

impl DeleteReason {
    /// The byte on disk.
    pub const fn to_byte(self) -> u8 {
        match self {
            DeleteReason::Command => 0,
            DeleteReason::Evicted => 1,
        }
    }

    /// The reason of a byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(DeleteReason::Command),
            1 => Some(DeleteReason::Evicted),
            _ => None,
        }
    }
}

/// Why an epoch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpochReason {
    /// A primary started.
    Start,
    /// A follower was promoted.
    Promotion,
    /// A log was restored into a new directory.
    Restore,
}

impl EpochReason {
    /// The byte on disk.
    pub const fn to_byte(self) -> u8 {
        match self {
            EpochReason::Start => 0,
            EpochReason::Promotion => 1,
            EpochReason::Restore => 2,
        }
    }

    /// The reason of a byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(EpochReason::Start),
            1 => Some(EpochReason::Promotion),
            2 => Some(EpochReason::Restore),
            _ => None,
        }
    }
}
