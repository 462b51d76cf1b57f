//! Owned twins of the borrowed types, so that values can be generated, kept and compared.

use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{DeleteReason, EpochReason, MemberList, Pairs, Record, Strings, SubRecords};
use idem_protocol::{Deadline, Epoch, Lsn, Member, NodeId, UnixMs};

/// An [`IdemRecord`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedIdem {
    pub state: IdemState,
    pub fingerprint: Vec<u8>,
    pub owner: Vec<u8>,
    pub result: Vec<u8>,
}

impl OwnedIdem {
    pub fn of(record: IdemRecord<'_>) -> Self {
        OwnedIdem {
            state: record.state,
            fingerprint: record.fingerprint.to_vec(),
            owner: record.owner.to_vec(),
            result: record.result.to_vec(),
        }
    }

    pub fn borrow(&self) -> IdemRecord<'_> {
        let OwnedIdem {
            state,
            fingerprint,
            owner,
            result,
        } = self;
        IdemRecord {
            state: *state,
            fingerprint,
            owner,
            result,
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.borrow().encode(&mut out);
        out
    }
}

/// A [`Record`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    StringPut {
        key: Vec<u8>,
        deadline: u64,
        value: Vec<u8>,
    },
    Delete {
        reason: DeleteReason,
        key: Vec<u8>,
    },
    DeadlinePut {
        key: Vec<u8>,
        deadline: u64,
    },
    HashPut {
        key: Vec<u8>,
        deadline: u64,
        fields: Vec<(Vec<u8>, Vec<u8>)>,
    },
    HashDelete {
        key: Vec<u8>,
        fields: Vec<Vec<u8>>,
    },
    FlushDb,
    FlushAll,
    Transaction(Vec<(u8, Owned)>),
    EpochStart {
        epoch: Epoch,
        node: NodeId,
        previous: Epoch,
        reason: EpochReason,
    },
    Members {
        required: u8,
        members: Vec<Member>,
    },
    Clock,
    IdempotencyPut {
        key: Vec<u8>,
        deadline: u64,
        record: OwnedIdem,
    },
}

/// Slices that a borrowed record points to.
#[derive(Default)]
struct Lists<'a> {
    pairs: Vec<(&'a [u8], &'a [u8])>,
    strings: Vec<&'a [u8]>,
}

impl Owned {
    /// What a decoder read.
    pub fn of(record: Record<'_>) -> Self {
        match record {
            Record::StringPut { key, deadline, value } => Owned::StringPut {
                key: key.to_vec(),
                deadline: deadline.get(),
                value: value.to_vec(),
            },
            Record::Delete { reason, key } => Owned::Delete {
                reason,
                key: key.to_vec(),
            },
            Record::DeadlinePut { key, deadline } => Owned::DeadlinePut {
                key: key.to_vec(),
                deadline: deadline.get(),
            },
            Record::HashPut {
                key,
                deadline,
                fields,
            } => {
                let pairs: Vec<_> = fields
                    .iter()
                    .map(|(field, value)| (field.to_vec(), value.to_vec()))
                    .collect();
                assert_eq!((pairs.len(), pairs.is_empty()), (fields.len(), fields.is_empty()));
                Owned::HashPut {
                    key: key.to_vec(),
                    deadline: deadline.get(),
                    fields: pairs,
                }
            }
            Record::HashDelete { key, fields } => {
                let strings: Vec<_> = fields.iter().map(<[u8]>::to_vec).collect();
                assert_eq!(
                    (strings.len(), strings.is_empty()),
                    (fields.len(), fields.is_empty())
                );
                Owned::HashDelete {
                    key: key.to_vec(),
                    fields: strings,
                }
            }
            Record::FlushDb => Owned::FlushDb,
            Record::FlushAll => Owned::FlushAll,
            Record::Transaction { records } => {
                let parts: Vec<_> = records.iter().map(|(db, part)| (db, Owned::of(part))).collect();
                assert_eq!(
                    (parts.len(), parts.is_empty()),
                    (records.len(), records.is_empty())
                );
                Owned::Transaction(parts)
            }
            Record::EpochStart {
                epoch,
                node,
                previous,
                reason,
            } => Owned::EpochStart {
                epoch,
                node,
                previous,
                reason,
            },
            Record::Members { required, members } => {
                let list = members.to_members();
                assert_eq!((list.len(), list.is_empty()), (members.len(), members.is_empty()));
                Owned::Members {
                    required,
                    members: list,
                }
            }
            Record::Clock => Owned::Clock,
            Record::IdempotencyPut {
                key,
                deadline,
                record,
            } => Owned::IdempotencyPut {
                key: key.to_vec(),
                deadline: deadline.get(),
                record: OwnedIdem::of(record),
            },
        }
    }

    fn lists(&self) -> Lists<'_> {
        match self {
            Owned::HashPut { fields, .. } => {
                let pairs = fields
                    .iter()
                    .map(|(field, value)| (field.as_slice(), value.as_slice()))
                    .collect();
                Lists {
                    pairs,
                    strings: Vec::new(),
                }
            }
            Owned::HashDelete { fields, .. } => Lists {
                pairs: Vec::new(),
                strings: fields.iter().map(Vec::as_slice).collect(),
            },
            _ => Lists::default(),
        }
    }

    /// Everything but a transaction.
    fn borrow<'a>(&'a self, lists: &'a Lists<'a>) -> Record<'a> {
        match self {
            Owned::StringPut { key, deadline, value } => Record::StringPut {
                key,
                deadline: Deadline::at(*deadline),
                value,
            },
            Owned::Delete { reason, key } => Record::Delete { reason: *reason, key },
            Owned::DeadlinePut { key, deadline } => Record::DeadlinePut {
                key,
                deadline: Deadline::at(*deadline),
            },
            Owned::HashPut { key, deadline, .. } => {
                let fields = Pairs::from(lists.pairs.as_slice());
                Record::HashPut {
                    key,
                    deadline: Deadline::at(*deadline),
                    fields,
                }
            }
            Owned::HashDelete { key, .. } => Record::HashDelete {
                key,
                fields: Strings::from(lists.strings.as_slice()),
            },
            Owned::FlushDb => Record::FlushDb,
            Owned::FlushAll => Record::FlushAll,
            Owned::Transaction(_) => panic!("a transaction does not stand inside a transaction"),
            Owned::EpochStart {
                epoch,
                node,
                previous,
                reason,
            } => Record::EpochStart {
                epoch: *epoch,
                node: *node,
                previous: *previous,
                reason: *reason,
            },
            Owned::Members { required, members } => Record::Members {
                required: *required,
                members: MemberList::Slice(members),
            },
            Owned::Clock => Record::Clock,
            Owned::IdempotencyPut {
                key,
                deadline,
                record,
            } => Record::IdempotencyPut {
                key,
                deadline: Deadline::at(*deadline),
                record: record.borrow(),
            },
        }
    }

    /// Lends the borrowed record.
    pub fn with<T>(&self, lend: impl FnOnce(&Record<'_>) -> T) -> T {
        let Owned::Transaction(parts) = self else {
            return lend(&self.borrow(&self.lists()));
        };
        let lists: Vec<Lists<'_>> = parts.iter().map(|(_, part)| part.lists()).collect();
        let records: Vec<(u8, Record<'_>)> = parts
            .iter()
            .zip(&lists)
            .map(|((db, part), lists)| (*db, part.borrow(lists)))
            .collect();
        lend(&Record::Transaction {
            records: SubRecords::Slice(&records),
        })
    }

    /// The record's bytes; checks that its size was announced and its checksum returned.
    pub fn encode(&self, lsn: Lsn, time: UnixMs, db: u8) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let (announced, crc) =
            self.with(|record| (record.encoded_len(), record.encode(lsn, time, db, &mut out)));
        let bytes = out.split_off(6);
        assert_eq!(out, b"before", "an encoder only appends");
        assert_eq!(announced, bytes.len() as u64);
        assert_eq!(crc.to_le_bytes(), bytes[4..8]);
        bytes
    }
}
