//! States that clients cannot read: XChaCha20-Poly1305, whose nonces are long enough to be drawn at random.

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use super::fault::SealError;
use super::key::Derived;

const NONCE: usize = 24;

/// What is authenticated but not encrypted: what the state is bound to, and the header.
fn associated(bound: &[u8], header: &[u8]) -> Vec<u8> {
    [bound, header].concat()
}

/// Header, nonce, and the encrypted claims and state with their authenticator.
pub(super) fn seal(
    key: &Derived,
    header: &[u8],
    bound: &[u8],
    claims: &[u8],
    state: &str,
) -> Result<Vec<u8>, SealError> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(|error| SealError::NoRandomness(error.to_string()))?;
    let plain = Zeroizing::new([claims, state.as_bytes()].concat());
    let aad = associated(bound, header);
    let cipher = XChaCha20Poly1305::new((&*key.cipher).into());
    let encrypted = cipher
        .encrypt(&XNonce::from(nonce), Payload { msg: &plain, aad: &aad })
        .map_err(|_| SealError::Unencryptable)?;
    Ok([header, &nonce, &encrypted].concat())
}

/// Claims and state, if they are authentic.
pub(super) fn open<const CLAIMS: usize>(
    key: &Derived,
    bytes: &[u8],
    header: usize,
    bound: &[u8],
) -> Option<([u8; CLAIMS], Vec<u8>)> {
    let (header, rest) = bytes.split_at_checked(header)?;
    let (nonce, encrypted) = rest.split_first_chunk::<NONCE>()?;
    let aad = associated(bound, header);
    let cipher = XChaCha20Poly1305::new((&*key.cipher).into());
    let mut plain = cipher.decrypt(&XNonce::from(*nonce), Payload { msg: encrypted, aad: &aad }).ok()?;
    let claims = *plain.first_chunk::<CLAIMS>()?;
    plain.drain(..CLAIMS);
    Some((claims, plain))
}
