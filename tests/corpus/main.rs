//! The inputs that fuzzing has found interesting, kept: one a line, in hexadecimal.

mod checks;

fn each(corpus: &str, check: fn(&[u8])) {
    let mut count = 0;
    for line in corpus.lines() {
        let digit = |byte: u8| char::from(byte).to_digit(16).expect("hexadecimal digits");
        let input = line.as_bytes().chunks(2).map(|pair| u8::try_from(digit(pair[0]) << 4 | digit(pair[1])));
        check(&input.collect::<Result<Vec<_>, _>>().expect("two digits make a byte"));
        count += 1;
    }
    assert!(count > 50, "{count} inputs");
}

#[test]
fn kept_bodies_are_parsed_or_refused() {
    each(include_str!("message.hex"), checks::message);
}

#[test]
fn kept_states_open_only_as_they_were_sealed() {
    each(include_str!("open_state.hex"), checks::open_state);
}

#[test]
fn kept_header_values_are_decoded_or_refused() {
    each(include_str!("sentinel.hex"), checks::sentinel);
}

#[test]
fn kept_event_streams_are_read_the_same_however_they_are_cut() {
    each(include_str!("sse.hex"), checks::sse);
}
