//! HTTP/2 frames that no regular client sends.

use std::io::{self, Read, Write};

use rustls::ClientConfig;

use super::{AttackedPlane, COLLECTION};
use crate::http::{Client, Connection, Credentials};
use machinery::json;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// The error code of a GOAWAY frame to a client that exceeds the limits.
const ENHANCE_YOUR_CALM: u32 = 11;

/// A received frame.
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// An HTTP/2 connection that sends any bytes.
pub(super) struct RawHttp2(Connection);

impl RawHttp2 {
    /// Connects and sends the preface with the given settings.
    pub(super) fn connect(attacked: &AttackedPlane, settings: &[u8]) -> Self {
        Self::connect_with(attacked, settings, Credentials::tls)
    }

    /// Connects without a client certificate.
    pub(super) fn connect_anonymously(attacked: &AttackedPlane, settings: &[u8]) -> Self {
        Self::connect_with(attacked, settings, Credentials::anonymous_tls)
    }

    fn connect_with(
        attacked: &AttackedPlane,
        settings: &[u8],
        tls: impl FnOnce(&Credentials) -> ClientConfig,
    ) -> Self {
        let client = attacked.client_with(|it| {
            let mut tls = tls(it);
            tls.alpn_protocols = vec![b"h2".to_vec()];
            tls
        });
        Self::connect_by(&client, settings)
    }

    /// Connects by a client that offers HTTP/2.
    pub(super) fn connect_by(client: &Client, settings: &[u8]) -> Self {
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        hello.extend(frame(SETTINGS, 0, 0, settings));
        let mut raw = Self(client.connect().unwrap());
        raw.send(&hello).unwrap();
        raw
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)?;
        self.0.get_mut().flush()
    }

    pub(super) fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let [a, b, c, kind, flags, rest @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.0.read_exact(&mut payload)?;
        Ok(Frame { kind, flags, stream: u32::from_be_bytes(rest), payload })
    }

    /// Reads until the server closes the connection: the code of its GOAWAY frame, or none.
    fn goaway_code(&mut self) -> Option<u32> {
        loop {
            match self.read() {
                Ok(frame) if frame.kind == GOAWAY => {
                    return Some(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap()));
                }
                Ok(_) => {}
                Err(error) => {
                    assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it is still connected");
                    return None;
                }
            }
        }
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length.to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The header block of a GET request; the path has less than 127 bytes.
pub(super) fn get(path: &str) -> Vec<u8> {
    // HPACK entries of the static table: `:method: GET`, `:scheme: https`, `:authority`, `:path`.
    let mut block = vec![0x82, 0x87, 0x01, 1, b'x', 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path.as_bytes());
    block
}

/// Names of headers, by their index in HPACK's static table.
pub(super) const ACCEPT: u8 = 19;
pub(super) const AUTHORIZATION: u8 = 23;
pub(super) const CONTENT_TYPE: u8 = 31;

/// Methods, by their index in HPACK's static table.
pub(super) const GET: u8 = 2;
pub(super) const POST: u8 = 3;

/// The header block of a request with further headers; path and values have less than 127 bytes.
pub(super) fn request(method: u8, path: &str, headers: &[(u8, &str)]) -> Vec<u8> {
    let mut block = get(path);
    block[0] = 0x80 | method;
    for (name, value) in headers {
        // A literal without indexing, whose name index does not fit into four bits.
        block.extend([0x0f, name - 15, u8::try_from(value.len()).unwrap()]);
        block.extend(value.as_bytes());
    }
    block
}

/// The header block of a PATCH with further headers.
pub(super) fn patch(path: &str, headers: &[(u8, &str)]) -> Vec<u8> {
    // The static table has no entry `:method: PATCH`.
    let mut block = vec![0x02, 5];
    block.extend(b"PATCH");
    block.extend(&request(GET, path, headers)[1..]);
    block
}

/// The identifiers of streams of a client, which are odd.
pub(super) fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|it| 2 * it + 1)
}

#[test]
fn each_stream_of_a_flood_is_served_or_refused() {
    const COUNT: u32 = 1000;
    let attacked = AttackedPlane::start();
    let mut raw = RawHttp2::connect(&attacked, &[]);
    let requests: Vec<u8> = streams(COUNT)
        .flat_map(|it| frame(HEADERS, END_STREAM | END_HEADERS, it, &get("/readyz")))
        .collect();
    raw.send(&requests).unwrap();
    let (mut served, mut refused) = (0, 0);
    while served + refused < COUNT {
        let Ok(frame) = raw.read() else { break };
        match frame.kind {
            RST_STREAM => refused += 1,
            GOAWAY => break,
            SETTINGS | PING => {}
            _ if frame.flags & END_STREAM != 0 && frame.stream > 0 => served += 1,
            _ => {}
        }
    }
    assert!(served >= 100, "{served} were served, {refused} refused");
    attacked.assert_healthy();
}

#[test]
fn a_flood_of_resets_ends_the_connection() {
    let attacked = AttackedPlane::start();
    let mut raw = RawHttp2::connect(&attacked, &[]);
    let no_error = 0_u32.to_be_bytes();
    let mut sent = Ok(());
    for some in streams(20_000).collect::<Vec<_>>().chunks(500) {
        let flood: Vec<u8> = some
            .iter()
            .flat_map(|it| {
                let mut both = frame(HEADERS, END_STREAM | END_HEADERS, *it, &get(COLLECTION));
                both.extend(frame(RST_STREAM, 0, *it, &no_error));
                both
            })
            .collect();
        sent = sent.and_then(|()| raw.send(&flood));
    }
    if let Some(reason) = raw.goaway_code() {
        assert_eq!(reason, ENHANCE_YOUR_CALM);
    }
    attacked.assert_healthy();
}

#[test]
fn an_endless_header_block_ends_the_connection() {
    let attacked = AttackedPlane::start();
    let mut raw = RawHttp2::connect(&attacked, &[]);
    // A repeated literal header without indexing.
    let header = [&[0x00, 1, b'h', 100][..], &[b'x'; 100]].concat();
    let many = header.repeat(100);
    let mut sent = raw.send(&frame(HEADERS, END_STREAM, 1, &get("/readyz")));
    for _ in 0..1000 {
        sent = sent.and_then(|()| raw.send(&frame(CONTINUATION, 0, 1, &many)));
    }
    if let Some(reason) = raw.goaway_code() {
        assert_eq!(reason, ENHANCE_YOUR_CALM);
    }
    attacked.assert_healthy();
}

#[test]
fn unread_acknowledgments_of_pings_and_settings_use_bounded_memory() {
    let attacked = AttackedPlane::start();
    let mut raw = RawHttp2::connect(&attacked, &[]);
    raw.0.get_ref().sock.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    let both = [frame(PING, 0, 0, &[7; 8]), frame(SETTINGS, 0, 0, &[])].concat().repeat(1000);
    // The server stops reading when its own frames are not read.
    let mut sent = Ok(());
    for _ in 0..100 {
        sent = sent.and_then(|()| raw.send(&both));
    }
    attacked.assert_healthy();
}

#[test]
fn invalid_frames_end_the_connection() {
    let attacked = AttackedPlane::start();
    let attacks = [
        frame(HEADERS, END_STREAM | END_HEADERS, 2, &get("/readyz")),
        frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0xff; 100]),
        frame(SETTINGS, 0, 0, &[0; 5]),
        frame(CONTINUATION, END_HEADERS, 1, &get("/readyz")),
        frame(PING, 0, 0, &[0; 100]),
        frame(0, 0, 7, b"data of a stream that was not opened"),
        vec![0xff; 1000],
    ];
    for attack in attacks {
        let mut raw = RawHttp2::connect(&attacked, &[]);
        raw.send(&attack).unwrap();
        assert_ne!(raw.goaway_code(), Some(0), "{attack:?}");
    }
    attacked.assert_healthy();
}

/// SETTINGS with an initial window size of 0.
pub(super) const ZERO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// SETTINGS with an initial window size of 1, which lets the server start a body.
pub(super) const ONE_BYTE_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 1];

#[test]
fn unread_responses_do_not_accumulate() {
    let mut attacked = AttackedPlane::start();
    let data = "x".repeat(40_000);
    for name in 0..5 {
        let object = json!({"metadata": {"name": format!("a{name}")}, "data": {"k": data}});
        attacked.send_accepted("POST", COLLECTION, &object);
    }
    let mut raw = RawHttp2::connect(&attacked, &ZERO_WINDOW);
    let requests: Vec<u8> = streams(100)
        .flat_map(|it| frame(HEADERS, END_STREAM | END_HEADERS, it, &get(COLLECTION)))
        .collect();
    raw.send(&requests).unwrap();
    let mut begun = 0;
    while begun < 100 {
        begun += u32::from(raw.read().unwrap().kind == HEADERS);
    }
    attacked.assert_healthy();
}
