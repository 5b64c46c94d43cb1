//! Small hashes that programs carry with them, each over bytes, characters or UTF-16 units as its program does.

/// FNV-1, 32 bits (RFC 9923).
pub fn fnv1_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET_32, |hash, byte| {
        hash.wrapping_mul(PRIME_32) ^ u32::from(*byte)
    })
}

/// FNV-1a, 32 bits: the same with its two steps exchanged.
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET_32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(PRIME_32)
    })
}

/// FNV-1, 64 bits.
pub fn fnv1_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_64, |hash, byte| {
        hash.wrapping_mul(PRIME_64) ^ u64::from(*byte)
    })
}

/// FNV-1a, 64 bits.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME_64)
    })
}

const OFFSET_32: u32 = 2_166_136_261;
const PRIME_32: u32 = 16_777_619;
const OFFSET_64: u64 = 14_695_981_039_346_656_037;
const PRIME_64: u64 = 1_099_511_628_211;

/// Java's `String.hashCode()`.
pub fn java(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// The string hash of .NET Framework, which programs use where .NET's own differs from one process to the next.
pub fn dotnet(text: &str) -> i32 {
    let mut halves = [352_654_597_i32; 2];
    for (at, unit) in text.encode_utf16().enumerate() {
        let half = &mut halves[at % 2];
        *half = half.wrapping_mul(33) ^ i32::from(unit);
    }
    halves[0].wrapping_add(halves[1].wrapping_mul(1_566_083_941))
}

/// djb2 with XOR in the place of the addition, over the UTF-16 units of a JavaScript string.
pub fn djb2x(units: impl Iterator<Item = u16>) -> u32 {
    units.fold(5381, |hash: u32, unit| {
        hash.wrapping_mul(33) ^ u32::from(unit)
    })
}
