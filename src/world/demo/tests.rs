//! The story against a stand-in sidecar: it proves the story's measuring, not the sidecar.
