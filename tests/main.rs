//! Tests of the real binary on real servers: one module for each subject.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod harness;
mod support;
