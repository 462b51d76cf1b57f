//! The job for Redis: IDEM's BEGIN and COMPLETE as two Lua scripts of equal meaning.
//!
//! The stored string is the same as idemd's, byte for byte: an 11-byte header, fingerprint, owner, result. What the
//! scripts leave out makes them cheaper, never dearer: the limits of arguments are not checked, and neither is a record
//! whose deadline was taken away. ABORT is not needed for the comparison.

use super::Failure;
use crate::process::Client;
use idem_protocol::resp::value::Value;

/// `KEYS[1]`, fingerprint, owner, ttl in milliseconds.
const BEGIN: &str = r"
local v = redis.call('GET', KEYS[1])
if not v then
  redis.call('SET', KEYS[1], 'IDM\1\0' .. string.char(#ARGV[1], #ARGV[2]) .. '\0\0\0\0' .. ARGV[1] .. ARGV[2], 'PX', ARGV[3])
  return {'acquired'}
end
if string.sub(v, 1, 4) ~= 'IDM\1' then return redis.error_reply('WRONGTYPE not an IDEM record') end
local state, f, o = string.byte(v, 5, 7)
if string.sub(v, 12, 11 + f) ~= ARGV[1] then return {'conflict'} end
if state == 0 then return {'pending'} end
return {'completed', string.sub(v, 12 + f + o)}
";

/// `KEYS[1]`, fingerprint, owner, result. `KEEPTTL` keeps the deadline.
const COMPLETE: &str = r"
local v = redis.call('GET', KEYS[1])
if not v then return 0 end
if string.sub(v, 1, 4) ~= 'IDM\1' then return redis.error_reply('WRONGTYPE not an IDEM record') end
local state, f, o = string.byte(v, 5, 7)
if string.sub(v, 12, 11 + f) ~= ARGV[1] or string.sub(v, 12 + f, 11 + f + o) ~= ARGV[2] then return 0 end
if state == 1 then
  if string.sub(v, 12 + f + o) == ARGV[3] then return 1 end
  return 0
end
redis.call('SET', KEYS[1], 'IDM\1\1' .. string.char(f, o) .. struct.pack('<I4', #ARGV[3]) .. ARGV[1] .. ARGV[2] .. ARGV[3], 'KEEPTTL')
return 1
";

/// Digests by which a server knows the scripts.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// BEGIN.
    pub begin: Vec<u8>,
    /// COMPLETE.
    pub complete: Vec<u8>,
}

impl Scripts {
    /// Gives both scripts to a server.
    pub fn load(client: &mut Client) -> Result<Scripts, Failure> {
        let mut load = |script: &str| match client.call(&[b"SCRIPT", b"LOAD", script.as_bytes()]) {
            Ok(Value::Bulk(digest)) => Ok(digest),
            other => Err(Failure::new(format!("SCRIPT LOAD was answered with {other:?}"))),
        };
        Ok(Scripts {
            begin: load(BEGIN)?,
            complete: load(COMPLETE)?,
        })
    }
}
