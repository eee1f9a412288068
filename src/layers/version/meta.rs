//! The shape of `_meta`.

use std::borrow::Cow;

use crate::message::{Kind, Meta, Raw};
use crate::protocol::LogLevel;
use crate::protocol::meta::{CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION};
use crate::rejection::{Rejection, shorten};

/// The members of the capabilities that the revision defines; all of them are objects.
const CAPABILITIES: [&str; 5] = ["elicitation", "sampling", "roots", "extensions", "experimental"];

/// Checks the shape of a request's `_meta` and returns the version that it claims.
pub(super) fn check(meta: Option<&Meta>) -> Result<Cow<'_, str>, Rejection> {
    let Some(meta) = meta else {
        return Err(invalid(format!(
            "`params._meta` is missing: send an object with `{PROTOCOL_VERSION}` and `{CLIENT_CAPABILITIES}`"
        )));
    };
    let mut found = Found::default();
    for (key, value) in meta.as_object().iter() {
        match key {
            PROTOCOL_VERSION => found.version = Some(value),
            CLIENT_CAPABILITIES => found.capabilities = Some(value),
            CLIENT_INFO => found.client_info = Some(value),
            LOG_LEVEL => found.log_level = Some(value),
            PROGRESS_TOKEN => found.progress_token = Some(value),
            _ => {}
        }
    }
    let version = found.version.ok_or_else(|| {
        missing(PROTOCOL_VERSION, "the protocol version that the request speaks, such as \"2026-07-28\"")
    })?;
    let capabilities = found.capabilities.ok_or_else(|| {
        missing(CLIENT_CAPABILITIES, "an object, `{}` if the client has no optional capabilities")
    })?;
    let version = version.to_str().ok_or_else(version_is_not_text)?;
    check_capabilities(capabilities)?;
    found.client_info.map_or(Ok(()), check_client_info)?;
    found.log_level.map_or(Ok(()), check_log_level)?;
    found.progress_token.map_or(Ok(()), check_progress_token)?;
    Ok(version)
}

/// The members that the revision defines for requests, found in one pass.
#[derive(Default)]
struct Found<'a> {
    version: Option<Raw<'a>>,
    capabilities: Option<Raw<'a>>,
    client_info: Option<Raw<'a>>,
    log_level: Option<Raw<'a>>,
    progress_token: Option<Raw<'a>>,
}

fn invalid(message: String) -> Rejection {
    Rejection::invalid_params(message)
}

fn missing(key: &str, what: &str) -> Rejection {
    invalid(format!("`{key}` is missing in `params._meta`: send {what}"))
}

fn wrong(key: &str, what: &str) -> Rejection {
    invalid(format!("`{key}` in `params._meta` must be {what}"))
}

pub(super) fn version_is_not_text() -> Rejection {
    wrong(PROTOCOL_VERSION, "a string, such as \"2026-07-28\"")
}

fn check_capabilities(capabilities: Raw<'_>) -> Result<(), Rejection> {
    if capabilities.kind() != Kind::Object {
        return Err(wrong(CLIENT_CAPABILITIES, "an object, `{}` if the client has no optional capabilities"));
    }
    let mut seen = [false; CAPABILITIES.len()];
    let mut fault = None;
    capabilities.each_member(|name, value| {
        let Some(known) = CAPABILITIES.iter().position(|known| *known == name) else { return };
        let key = || format!("{CLIENT_CAPABILITIES}.{name}");
        if std::mem::replace(&mut seen[known], true) {
            fault.get_or_insert_with(|| wrong(&key(), "given once: it is named twice"));
        } else if value.kind() != Kind::Object {
            fault.get_or_insert_with(|| wrong(&key(), "an object; leave it out if the client cannot do it"));
        }
    });
    fault.map_or(Ok(()), Err)
}

fn check_client_info(info: Raw<'_>) -> Result<(), Rejection> {
    let (mut names, mut versions, mut others) = (0, 0, 0);
    info.each_member(|name, value| match (&*name, value.kind()) {
        ("name", Kind::String) => names += 1,
        ("version", Kind::String) => versions += 1,
        ("name" | "version", _) => others += 1,
        _ => {}
    });
    if (names, versions, others) == (1, 1, 0) {
        return Ok(());
    }
    Err(wrong(
        CLIENT_INFO,
        "an object with the strings `name` and `version`, each given once; or leave it out",
    ))
}

fn check_log_level(level: Raw<'_>) -> Result<(), Rejection> {
    let text = level.to_str();
    if text.as_deref().and_then(LogLevel::from_text).is_some() {
        return Ok(());
    }
    let levels = "debug, info, notice, warning, error, critical, alert or emergency, as a string";
    Err(match text {
        Some(text) => wrong(LOG_LEVEL, &format!("one of {levels}, not `{}`", shorten(&text))),
        None => wrong(LOG_LEVEL, &format!("one of {levels}; or leave it out")),
    })
}

fn check_progress_token(token: Raw<'_>) -> Result<(), Rejection> {
    let fine = match token.kind() {
        Kind::String => true,
        Kind::Number => !token.text().bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')),
        _ => false,
    };
    if fine { Ok(()) } else { Err(wrong(PROGRESS_TOKEN, "a string or an integer; or leave it out")) }
}
