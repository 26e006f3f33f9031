//! A mask as it is met on the way down: which members of an object are wanted, and what of them.

use std::borrow::Cow;

use crate::payload::mask::Mask;
use crate::payload::schema::{Level, Schema};

/// Fields that are wanted of one object.
pub(super) struct Node<'m> {
    members: Vec<Member<'m>>,
    /// A table by hash of the name: 0, or one more than a place in `members`. Little of it is
    /// taken, as nearly every name that is looked up is not in it.
    slots: Box<[u8]>,
}

struct Member<'m> {
    name: Cow<'m, str>,
    /// Other spelling of the name: of both together the last counts, as of one name that is there
    /// twice.
    other: Option<&'m str>,
    /// Index of the node for its value; `None`: all of the value.
    below: Option<usize>,
}

/// The nodes of a mask, its root first.
pub(super) struct Tree<'m>(Vec<Node<'m>>);

impl<'m> Tree<'m> {
    pub(super) fn of(mask: &'m Mask) -> Self {
        let paths = mask.paths();
        let paths: Vec<_> = paths.iter().collect();
        let mut nodes = Vec::new();
        add(&paths, 0, mask.spelling().map(|schema| (schema, schema.top())), &mut nodes);
        Self(nodes)
    }

    pub(super) fn node(&self, at: usize) -> &Node<'m> {
        &self.0[at]
    }
}

/// Adds the node of `paths`, which are sorted and alike in their first `depth` names.
fn add<'m>(
    paths: &[&[Cow<'m, str>]],
    depth: usize,
    spelling: Option<(&'m Schema, Level)>,
    nodes: &mut Vec<Node<'m>>,
) -> usize {
    let place = nodes.len();
    nodes.push(Node { members: Vec::new(), slots: Box::default() });
    let mut members = Vec::new();
    for alike in paths.chunk_by(|one, other| one[depth] == other[depth]) {
        let is_whole = alike[0].len() == depth + 1;
        let name = &alike[0][depth];
        let known = spelling.map(|(schema, level)| (schema, schema.member(level, name)));
        let spelling = known.map(|(schema, (_, level))| (schema, level));
        let below = (!is_whole).then(|| add(alike, depth + 1, spelling, nodes));
        members.push(Member { name: name.clone(), other: known.and_then(|(_, (other, _))| other), below });
    }
    nodes[place] = Node::of(members);
    place
}

impl Member<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.other)
    }
}

impl<'m> Node<'m> {
    fn of(members: Vec<Member<'m>>) -> Self {
        let mut slots = vec![0; (members.len() * 16).next_power_of_two()].into_boxed_slice();
        for (at, member) in (1..).zip(&members) {
            for name in member.names() {
                let mut slot = place(name.as_bytes(), slots.len());
                while slots[slot] != 0 {
                    slot = (slot + 1) & (slots.len() - 1);
                }
                slots[slot] = at;
            }
        }
        Self { members, slots }
    }

    /// The wanted member of that name.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        let mut slot = place(name, self.slots.len());
        loop {
            let at = usize::from(self.slots[slot]).checked_sub(1)?;
            if self.members[at].names().any(|its| its.as_bytes() == name) {
                return Some(at);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    pub(super) fn below(&self, member: usize) -> Option<usize> {
        self.members[member].below
    }
}

/// Slot of a name in a table of `slots`. Hashes its first and last eight bytes and its length:
/// names that follow one another differ at their ends. A table has 128 names at most, so nobody
/// gains by making them collide.
fn place(name: &[u8], slots: usize) -> usize {
    let (first, last) = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (0, name.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
    };
    let mixed = (first.rotate_left(23) ^ last ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (slots - 1)
}
