//! Authentication, with an issuer behind a real socket.
#![cfg(all(feature = "jwks", feature = "introspection"))]

mod introspection;
mod issuer;
mod jwt;
mod keys;
mod layer;
mod sockets;
mod tls;
