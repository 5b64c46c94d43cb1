//! A program that speaks as a PostgreSQL server does, and is none.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Has one answer to all statements, until the client says good-bye; all that it sent.
pub fn serve(client: &mut TcpStream, answer: &[u8]) -> String {
    serve_each(client, |_| answer.to_owned()).concat()
}

/// Speaks as a server does (PostgreSQL documentation, 55.7), until the client says good-bye; each message it sent.
pub fn serve_each(client: &mut TcpStream, answer: impl Fn(&str) -> Vec<u8>) -> Vec<String> {
    const READY: &[u8] = b"Z\0\0\0\x05I";
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    read_rest(client, length);
    let welcome = [
        message(b'R', &[0; 4]),
        message(b'S', b"server_version\x0015.0\0"),
        message(b'S', b"server_encoding\0UTF8\0"),
        message(b'K', &[0, 0, 0x10, 0, 0, 0, 0, 1]),
        READY.to_vec(),
    ];
    client.write_all(&welcome.concat()).unwrap();

    let mut asked = Vec::new();
    let mut head = [0; 5];
    while client.read_exact(&mut head).is_ok() && head[0] == b'Q' {
        let [_, length @ ..] = head;
        let rest = read_rest(client, length);
        let statement = String::from_utf8_lossy(&rest).into_owned();
        client
            .write_all(&[&answer(&statement), READY].concat())
            .unwrap();
        asked.push(statement);
    }
    asked
}

/// What follows a message's length, which counts itself.
fn read_rest(client: &mut TcpStream, length: [u8; 4]) -> Vec<u8> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap();
    let mut rest = vec![0; length - 4];
    client.read_exact(&mut rest).unwrap();
    rest
}

/// A message of the protocol.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// An error of this SQLSTATE.
pub fn error(code: &str, said: &str) -> Vec<u8> {
    message(
        b'E',
        format!("SERROR\0VERROR\0C{code}\0M{said}\0\0").as_bytes(),
    )
}

/// The rows of an answer, which are texts or null, of columns with these names.
pub fn answer(columns: &[&str], rows: &[Vec<Option<String>>]) -> Vec<u8> {
    /// No table's column, and a text of any length.
    const TEXT: [u8; 18] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0,
    ];
    let count = u16::try_from(columns.len()).unwrap().to_be_bytes();
    let mut description = count.to_vec();
    for column in columns {
        description.extend(column.bytes().chain([0]).chain(TEXT));
    }
    let mut answer = message(b'T', &description);
    for row in rows {
        let mut data = count.to_vec();
        for value in row {
            let length = value
                .as_ref()
                .map_or(-1, |value| i32::try_from(value.len()).unwrap());
            data.extend(length.to_be_bytes());
            data.extend(value.iter().flat_map(|value| value.bytes()));
        }
        answer.extend(message(b'D', &data));
    }
    answer.extend(message(b'C', b"SELECT\0"));
    answer
}
