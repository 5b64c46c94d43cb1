//! PostgreSQL's `hashtext` and `hashtextextended`: Bob Jenkins' lookup3 in the variant of `src/common/hashfn.c`.
//!
//! The server hashes the bytes of the database's encoding, which here is UTF-8.

/// `hashtext(text)`.
pub fn hashtext(text: &str) -> i32 {
    let [_, c] = hash(text.as_bytes());
    c.cast_signed()
}

/// `hashtextextended(text, 0)`.
pub fn hashtextextended(text: &str) -> i64 {
    let [b, c] = hash(text.as_bytes());
    ((u64::from(b) << 32) | u64::from(c)).cast_signed()
}

fn hash(bytes: &[u8]) -> [u32; 2] {
    // Modulo 2^32, as in the server.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the length is added modulo 2^32"
    )]
    let start = 0x9e37_79b9_u32
        .wrapping_add(bytes.len() as u32)
        .wrapping_add(3_923_095);
    let mut state = [start; 3];
    let (blocks, tail) = bytes.as_chunks::<12>();
    for block in blocks {
        add(&mut state, block);
        mix(&mut state);
    }
    // The lowest byte of the third word is left to the length.
    let mut last = [0; 12];
    for (at, byte) in tail.iter().enumerate() {
        last[if at < 8 { at } else { at + 1 }] = *byte;
    }
    add(&mut state, &last);
    finish(&mut state);
    let [_, b, c] = state;
    [b, c]
}

fn add(state: &mut [u32; 3], block: &[u8; 12]) {
    let (words, _) = block.as_chunks::<4>();
    for (word, bytes) in state.iter_mut().zip(words) {
        *word = word.wrapping_add(u32::from_le_bytes(*bytes));
    }
}

/// Each word in turn loses another, is mixed with it, and that one grows by the third.
fn mix([a, b, c]: &mut [u32; 3]) {
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(first);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(second);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(third);
        *b = b.wrapping_add(*a);
    }
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let turn = |x: u32, y: u32, by: u32| (x ^ y).wrapping_sub(y.rotate_left(by));
    *c = turn(*c, *b, 14);
    *a = turn(*a, *c, 11);
    *b = turn(*b, *a, 25);
    *c = turn(*c, *b, 16);
    *a = turn(*a, *c, 4);
    *b = turn(*b, *a, 14);
    *c = turn(*c, *b, 24);
}
