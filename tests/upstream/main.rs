//! Upstreams behind real sockets.
#![cfg(feature = "upstream")]

mod faults;
mod fits;
mod many;
mod support;
mod tls;
mod wire;
