//! `cargo fuzz run open_state`: no text opens that was not sealed, and no request makes binding to it fail badly.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mcp_layers::layers::request_state::{Binding, StateKey, StateKeys, StateSealer};
use mcp_layers::message::Message;

static SEALER: LazyLock<StateSealer> = LazyLock::new(|| {
    let key = StateKey::new(&[7; 32]).expect("32 bytes");
    StateSealer::new(StateKeys::new([key]).expect("one key"), "fuzz")
});

fuzz_target!(|input: (&str, &str, u16, u8)| {
    let (text, arguments, at, flip) = input;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
    );
    let Ok(message) = Message::parse(body) else { return };
    let Ok(binding) = Binding::new(&message, None) else { return };
    assert!(SEALER.open(text, &binding).is_err());

    let Ok(sealed) = SEALER.seal(text, &binding, None) else { return };
    assert_eq!(SEALER.open(&sealed, &binding).expect("was just sealed").state, text);

    let mut changed = sealed.into_bytes();
    let at = usize::from(at) % changed.len();
    changed[at] ^= flip;
    if let (true, Ok(changed)) = (flip != 0, String::from_utf8(changed)) {
        assert!(SEALER.open(&changed, &binding).is_err());
    }
});
