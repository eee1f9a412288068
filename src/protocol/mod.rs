//! The words of MCP: revisions, methods, header names, error codes and the rules for mirrored values.

pub mod mirror;
