//! The recommended stack from end to end, over real sockets, HTTP/1.1 and HTTP/2.

mod cancellation;
mod listen;
mod refusals;
mod serving;
mod support;
