//! Generated from `proto/nearside/v1/announcement.proto`.
#![allow(missing_docs, clippy::doc_markdown, reason = "generated; the .proto file documents it")]

include!(concat!(env!("OUT_DIR"), "/nearside.v1.rs"));
