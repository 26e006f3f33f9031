//! Tests of the stage beside this folder.
