//! The cut: one pass over what a mask leads through, copying what it names. Objects are read to
//! their end, as a later member of the same name counts more.

use crate::payload::limits::NESTING;
use crate::payload::projection::containers::Containers;
use crate::payload::projection::error::ProjectionError;
use crate::payload::projection::json::{after_space, byte, container_end, meant, scalar_end, string_end};
use crate::payload::projection::tree::{Node, Tree};

/// A member that the mask names.
#[derive(Clone, Copy)]
struct Found {
    /// Start of its name; those of its value and of the bytes behind it follow.
    name: usize,
    value: usize,
    end: usize,
    /// Which of the node's members it is.
    member: usize,
}

struct Cut<'a> {
    body: &'a [u8],
    tree: &'a Tree<'a>,
    /// The members found in the objects that are being read, the innermost last.
    found: Vec<Found>,
    out: Vec<u8>,
}

/// Cuts the fields of `tree` out of `body`. With the places of containers their insides need not be
/// read.
pub(super) fn cut(body: &[u8], containers: Containers<'_>, tree: &Tree<'_>) -> Result<Vec<u8>, ProjectionError> {
    let mut cut = Cut { body, tree, found: Vec::new(), out: Vec::new() };
    let start = after_space(body, 0);
    let end = match byte(body, start) {
        b'{' | b'[' => cut.container(start, 0, containers, 0)?,
        0 => return Err(ProjectionError::Malformed),
        _ => return Err(ProjectionError::Scalar),
    };
    if after_space(body, end) < body.len() {
        return Err(ProjectionError::Malformed);
    }
    Ok(cut.out)
}

impl Cut<'_> {
    /// Writes what `node` names of the object or list at `at`; returns its end.
    fn container(
        &mut self,
        at: usize,
        node: usize,
        containers: Containers<'_>,
        depth: usize,
    ) -> Result<usize, ProjectionError> {
        if depth == NESTING {
            return Err(ProjectionError::TooDeep);
        }
        if byte(self.body, at) == b'{' {
            self.object(at, node, containers, depth)
        } else {
            self.list(at, node, containers, depth)
        }
    }

    fn list(
        &mut self,
        at: usize,
        node: usize,
        mut containers: Containers<'_>,
        depth: usize,
    ) -> Result<usize, ProjectionError> {
        self.out.push(b'[');
        let first = self.out.len();
        let mut at = after_space(self.body, at + 1);
        if byte(self.body, at) == b']' {
            self.out.push(b']');
            return Ok(at + 1);
        }
        loop {
            let end = if matches!(byte(self.body, at), b'{' | b'[') {
                if self.out.len() > first {
                    self.out.push(b',');
                }
                containers = containers.from(at);
                self.container(at, node, containers, depth + 1)?
            } else {
                // A scalar has no fields: it is left out, here as in an object.
                self.value_end(at, &mut containers)?
            };
            at = after_space(self.body, end);
            match byte(self.body, at) {
                b',' => at = after_space(self.body, at + 1),
                b']' => break,
                _ => return Err(ProjectionError::Malformed),
            }
        }
        self.out.push(b']');
        Ok(at + 1)
    }

    fn object(
        &mut self,
        at: usize,
        node: usize,
        containers: Containers<'_>,
        depth: usize,
    ) -> Result<usize, ProjectionError> {
        let base = self.found.len();
        let tree = self.tree;
        let node = tree.node(node);
        let end = self.find(at, node, containers)?;
        self.out.push(b'{');
        let first = self.out.len();
        for place in base..self.found.len() {
            let found = self.found[place];
            let below = node.below(found.member);
            if below.is_some() && !matches!(byte(self.body, found.value), b'{' | b'[') {
                continue;
            }
            if self.out.len() > first {
                self.out.push(b',');
            }
            let Some(below) = below else {
                self.out.extend_from_slice(&self.body[found.name..found.end]);
                continue;
            };
            self.out.extend_from_slice(&self.body[found.name..found.value]);
            self.container(found.value, below, containers.from(found.value), depth + 1)?;
        }
        self.out.push(b'}');
        self.found.truncate(base);
        Ok(end)
    }

    /// Reads the object at `at` to its end, which it returns, and notes the members that `node`
    /// names in the order in which they stand; of several with one name the last.
    fn find(&mut self, at: usize, node: &Node<'_>, mut containers: Containers<'_>) -> Result<usize, ProjectionError> {
        let (base, mut seen) = (self.found.len(), 0_u64);
        let mut name = after_space(self.body, at + 1);
        if byte(self.body, name) == b'}' {
            return Ok(name + 1);
        }
        loop {
            if byte(self.body, name) != b'"' {
                return Err(ProjectionError::Malformed);
            }
            let behind = string_end(self.body, name + 1)?;
            let colon = after_space(self.body, behind);
            if byte(self.body, colon) != b':' {
                return Err(ProjectionError::Malformed);
            }
            let value = after_space(self.body, colon + 1);
            let end = self.value_end(value, &mut containers)?;
            if let Some(member) = self.member(node, name, behind) {
                if seen >> member & 1 == 1 {
                    let earlier = self.found[base..].iter().position(|found| found.member == member);
                    self.found.remove(base + earlier.expect("it was seen"));
                }
                seen |= 1 << member;
                self.found.push(Found { name, value, end, member });
            }
            let next = after_space(self.body, end);
            match byte(self.body, next) {
                b',' => name = after_space(self.body, next + 1),
                b'}' => return Ok(next + 1),
                _ => return Err(ProjectionError::Malformed),
            }
        }
    }

    /// Which of the node's members the name between two quotes is.
    fn member(&self, node: &Node<'_>, quote: usize, behind: usize) -> Option<usize> {
        let name = &self.body[quote + 1..behind - 1];
        if name.contains(&b'\\') {
            return node.find(meant(&self.body[quote..behind])?.as_bytes());
        }
        node.find(name)
    }

    fn value_end(&self, at: usize, containers: &mut Containers<'_>) -> Result<usize, ProjectionError> {
        match byte(self.body, at) {
            b'"' => string_end(self.body, at + 1),
            b'{' | b'[' => containers.end_of(at).map_or_else(|| container_end(self.body, at), Ok),
            _ => scalar_end(self.body, at),
        }
    }
}
