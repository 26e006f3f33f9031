//! Items of one type are spread over [`limits::BUCKETS`] partitions: a type is never a partition,
//! because a partition has a ceiling of its own (in DynamoDB, 1,000 writes a second).

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::limits;

/// The partition of `key` among the items of `name`: `tenant#a7`.
pub fn partition(name: &str, key: &str) -> String {
    of(name, bucket(key))
}

/// The partition with this number: 0 to [`limits::BUCKETS`] - 1.
pub fn of(name: &str, bucket: u16) -> String {
    format!("{name}#{bucket:02x}")
}

/// The type or view that a partition belongs to.
pub fn name_of(partition: &str) -> Option<&str> {
    partition.rsplit_once('#').map(|(name, _)| name)
}

/// The bucket of a key, the same in every process and for ever: SipHash-1-3 without a secret.
pub fn bucket(key: &str) -> u16 {
    (hash(key) % u64::from(limits::BUCKETS)) as u16
}

/// One of `count` parts, for what is spread less.
pub fn part(key: &str, count: u16) -> u16 {
    (hash(key) / u64::from(limits::BUCKETS) % u64::from(count)) as u16
}

fn hash(key: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(key.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They are written down in tables: a change would lose every record.
    #[test]
    fn buckets_never_change() {
        assert_eq!(partition("tenant", "acme"), "tenant#94");
        assert_eq!(partition("tenant", ""), "tenant#2c");
        assert_eq!(part("acme", 16), 15);
    }

    #[test]
    fn keys_are_spread_evenly() {
        let mut counts = [0; limits::BUCKETS as usize];
        (0..25_600).for_each(|key| counts[usize::from(bucket(&format!("tenant-{key}")))] += 1);
        assert!(counts.iter().all(|count| (50..170).contains(count)), "{counts:?}");
    }
}
