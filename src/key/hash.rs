//! From a text to the key that a scheme of [`crate::catalogue`] gives it.

use blake2::Blake2b;
use blake2::digest::consts::U8;
use hkdf::Hkdf;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha224, Sha256};

use super::lookup3::{hashtext, hashtextextended};
use super::text_hashes::{djb2x, dotnet, fnv1_32, fnv1_64, fnv1a_32, fnv1a_64, java};
use super::{LockKey, big_endian, distributed_lock, leading, little_endian};
use crate::catalogue::Hash;

/// heimdall's own default for `--namespace`.
const HEIMDALL: &str = "heimdall";
/// What jakm/pglock puts in front of every name.
const JAKM_PREFIX: &str = "9ad09a3a30492944c3b62687101ca58e";
/// What sqlx derives its keys for.
const SQLX_INFO: &[u8] = b"SQLx (Rust) Postgres advisory lock";
/// The bits that `with_advisory_lock` keeps.
const POSITIVE: i32 = i32::MAX;

/// The key of a name; `None` where the scheme knows no namespace.
pub fn key(hash: Hash, namespace: Option<&str>, name: &str) -> Option<LockKey> {
    if hash == Hash::Heimdall {
        let class = half(Hash::Fnv1x32, namespace.unwrap_or(HEIMDALL))?;
        return Some(LockKey::Pair(class, half(Hash::Fnv1x32, name)?));
    }
    match namespace {
        None => Some(alone(hash, name)),
        Some(namespace) => Some(LockKey::Pair(half(hash, namespace)?, half(hash, name)?)),
    }
}

/// One int4 of two; only of hashes that are no longer, and of ours.
pub fn half(hash: Hash, text: &str) -> Option<i32> {
    match hash {
        Hash::Sha256 => Some(i32::from_be_bytes(leading(&Sha256::digest(text)))),
        _ => word(hash, text).map(u32::cast_signed),
    }
}

/// The hash of 32 bits that a scheme is made of, if it is made of one alone.
fn word(hash: Hash, text: &str) -> Option<u32> {
    Some(match hash {
        Hash::Hashtext => hashtext(text).cast_unsigned(),
        Hash::Crc32 | Hash::Crc32Signed => crc32fast::hash(text.as_bytes()),
        Hash::Fnv1x32 => fnv1_32(text.as_bytes()),
        Hash::Fnv1ax32 => fnv1a_32(text.as_bytes()),
        Hash::Java => java(text).cast_unsigned(),
        Hash::Dotnet => dotnet(text).cast_unsigned(),
        Hash::Djb2x => djb2x(text.encode_utf16()),
        Hash::Djb2xReversed => {
            let units: Vec<u16> = text.encode_utf16().collect();
            djb2x(units.into_iter().rev())
        }
        _ => return None,
    })
}

fn alone(hash: Hash, name: &str) -> LockKey {
    let signed_crc = |text: &str| crc32fast::hash(text.as_bytes()).cast_signed();
    let signed = |word: i32| LockKey::Bigint(word.into());
    let unsigned = |word: u32| LockKey::Bigint(word.into());
    match hash {
        Hash::Sha256 => LockKey::Bigint(big_endian(&Sha256::digest(name))),
        Hash::Sha256Little => LockKey::Bigint(little_endian(&Sha256::digest(name))),
        Hash::Sha256Words => {
            let digest = Sha256::digest(name);
            let int4 = |at: usize| i32::from_le_bytes(leading(&digest[at..]));
            LockKey::Pair(int4(0), int4(4))
        }
        Hash::Sha224 => LockKey::Bigint(big_endian(&Sha224::digest(name))),
        Hash::Sha1 => LockKey::Bigint(big_endian(&Sha1::digest(name))),
        Hash::Sha1Little => LockKey::Bigint(little_endian(&Sha1::digest(name))),
        Hash::Md5 => LockKey::Bigint(big_endian(&Md5::digest(name))),
        Hash::Hashtext => signed(hashtext(name)),
        Hash::HashtextExtended => LockKey::Bigint(hashtextextended(name)),
        Hash::Crc32Signed => signed(signed_crc(name)),
        Hash::Java => signed(java(name)),
        Hash::Dotnet => signed(dotnet(name)),
        Hash::Crc32 | Hash::Fnv1x32 | Hash::Fnv1ax32 | Hash::Djb2x | Hash::Djb2xReversed => {
            unsigned(word(hash, name).unwrap_or_default())
        }
        Hash::Fnv1x64 => LockKey::Bigint(fnv1_64(name.as_bytes()).cast_signed()),
        Hash::Fnv1ax64 => LockKey::Bigint(fnv1a_64(name.as_bytes()).cast_signed()),
        Hash::Blake2b => LockKey::Bigint(little_endian(&Blake2b::<U8>::digest(name))),
        Hash::WithAdvisoryLock => LockKey::Pair(signed_crc(name) & POSITIVE, 0),
        Hash::ClosureTree => {
            let name = format!("ct_{:x}", crc32fast::hash(name.as_bytes()));
            LockKey::Pair(signed_crc(&name) & POSITIVE, 0)
        }
        Hash::DistributedLock => distributed_lock::key(name),
        Hash::Sqlx => LockKey::Bigint(sqlx(name)),
        Hash::Yii => {
            let digest = Sha1::digest(name);
            let int2 = |at: usize| u16::from_be_bytes(leading(&digest[at..])).into();
            LockKey::Pair(int2(0), int2(2))
        }
        Hash::PgLock => LockKey::Pair(i32::MIN, signed_crc(name)),
        Hash::Heimdall => LockKey::Pair(
            fnv1_32(HEIMDALL.as_bytes()).cast_signed(),
            fnv1_32(name.as_bytes()).cast_signed(),
        ),
        Hash::JakmPglock => {
            LockKey::Bigint(fnv1_64(format!("{JAKM_PREFIX}{name}").as_bytes()).cast_signed())
        }
    }
}

fn sqlx(name: &str) -> i64 {
    let mut key = [0; 8];
    Hkdf::<Sha256>::new(None, name.as_bytes())
        .expand(SQLX_INFO, &mut key)
        .expect("8 bytes are less than 255 blocks");
    i64::from_le_bytes(key)
}
