//! Erlang's `phash2/1` of the terms that Ecto locks by; the same on every version and platform (OTP, `erlang:phash2/1`).

/// A part of a tuple.
#[derive(Clone, Copy)]
pub enum Term<'a> {
    Atom(&'a str),
    Binary(&'a str),
}

/// The hash of a tuple that begins with an atom, in the 27 bits that are the default range.
pub fn phash2(tuple: &[Term]) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "tuples are short")]
    let arity = tuple.len() as u32;
    let whole = tuple
        .iter()
        .fold(word(arity, 9, 0), |hash, term| match term {
            Term::Atom(name) => word(atom(name), 3, hash),
            Term::Binary(text) => bytes(text.as_bytes(), salt(13).wrapping_add(hash)),
        });
    whole & ((1 << 27) - 1)
}

const GOLDEN_RATIO: u32 = 0x9e37_79b9;

fn salt(kind: u32) -> u32 {
    GOLDEN_RATIO.wrapping_mul(kind)
}

fn word(value: u32, kind: u32, hash: u32) -> u32 {
    mixed([salt(kind).wrapping_add(value), salt(kind), hash])[2]
}

/// Bob Jenkins' hash of 1996, whose last block leaves the lowest byte of the third word to the length.
fn bytes(bytes: &[u8], hash: u32) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<12>();
    let state = blocks
        .iter()
        .fold([GOLDEN_RATIO, GOLDEN_RATIO, hash], |state, block| {
            mixed(added(state, block))
        });
    let mut last = [0; 12];
    for (at, byte) in tail.iter().enumerate() {
        last[if at < 8 { at } else { at + 1 }] = *byte;
    }
    let [a, b, c] = added(state, &last);
    #[expect(clippy::cast_possible_truncation, reason = "it is added modulo 2^32")]
    let length = bytes.len() as u32;
    mixed([a, b, c.wrapping_add(length)])[2]
}

fn added(mut state: [u32; 3], block: &[u8; 12]) -> [u32; 3] {
    let (words, _) = block.as_chunks::<4>();
    for (sum, bytes) in state.iter_mut().zip(words) {
        *sum = sum.wrapping_add(u32::from_le_bytes(*bytes));
    }
    state
}

fn mixed([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for [right, left, last] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> right);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << left);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> last);
    }
    [a, b, c]
}

/// An atom's own hash: that of P. J. Weinberger, here over ASCII.
fn atom(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        hash ^ (high >> 24) ^ high
    })
}
