//! The bounds of the configuration.

use crate::model::size::{KIB, MIB};

/// Routes of one service.
pub(crate) const ROUTES: usize = 256;
/// The size of a file of certificates, bytes; a bundle of all public CAs has a quarter of this.
pub(crate) const PEM_BYTES: u64 = MIB as u64;
/// Regions that the services may serve, and record types of a catalogue.
pub(crate) const SERVED_REGIONS: usize = 16;
/// Issuers of tokens in one file.
pub(crate) const ISSUERS: usize = 64;
/// Admins of the grants in one file.
pub(crate) const GRANTS_ADMINS: usize = 64;
pub(crate) const RECORD_TYPES: usize = 256;
/// Names in one list.
pub(crate) const NAMES: usize = 64;
/// The size of a JSON Schema or of the views' definitions, bytes.
pub(crate) const SCHEMA_BYTES: u64 = MIB as u64;
/// Records that one path may name.
pub(crate) const RECORDS_PER_ROUTE: usize = 8;
/// Headers that one route may forward or hash.
pub(crate) const HEADERS_PER_ROUTE: usize = 16;
/// Audiences that a token may not name besides.
pub(crate) const AUDIENCES: usize = 16;
/// Claims that one route may name.
pub(crate) const CLAIMS_PER_ROUTE: usize = 32;
/// Headers, or beginnings of their names, that one route may ignore.
pub(crate) const IGNORED_PER_ROUTE: usize = 64;
/// The size of a configuration file, bytes.
pub(crate) const CONFIG_BYTES: u64 = MIB as u64;
/// Named segments of one path template.
pub(crate) const NAMES_PER_PATH: usize = 8;
/// Hosts that `listen.allowed_hosts` may name, and uids of `listen.unix_uids`.
pub(crate) const ALLOWED_CALLERS: usize = 64;
/// Tags that an operator may give the queues; AWS allows 50, of which Nearside sets five.
pub(crate) const QUEUE_TAGS: usize = 40;
/// The longest path of a Unix socket, bytes: `sun_path` without the final NUL.
pub(crate) const SOCKET_PATH_BYTES: usize = 107;
/// The size of a file with a key that signs tokens, bytes.
pub(crate) const SIGNING_KEY_BYTES: u64 = 16 << 10;
/// The size of a credentials or token file, bytes.
pub(crate) const TOKEN_BYTES: u64 = 16 * KIB as u64;
/// The size of a FileDescriptorSet, bytes.
pub(crate) const DESCRIPTOR_BYTES: u64 = 16 * 1024 * KIB as u64;
/// The size of a compression dictionary, bytes; `zstd --train` makes 110 KiB unless set otherwise.
pub(crate) const DICTIONARY_BYTES: u64 = 1024 * KIB as u64;
/// The name of a query parameter, bytes.
pub(crate) const PARAMETER_BYTES: usize = 64;
/// Connections open at once over all listeners.
pub(crate) const CONNECTIONS: usize = 4096;
/// The most that `listen.max_connections` may ask for.
pub(crate) const CONNECTIONS_AT_MOST: usize = 65_536;
/// Requests under way at once to one region.
pub(crate) const PERMITS_PER_REGION: usize = 512;
/// The most that `race.permits` may ask for.
pub(crate) const PERMITS_PER_REGION_AT_MOST: usize = 4096;

const _: () = assert!(CONNECTIONS <= CONNECTIONS_AT_MOST);
const _: () = assert!(PERMITS_PER_REGION <= PERMITS_PER_REGION_AT_MOST);
