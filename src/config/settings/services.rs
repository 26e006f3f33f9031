//! The settings of the services: `nearside catalogue`, `nearside views` and `nearside region` read
//! one file. `docs/service-configuration.md` is checked against it.

use super::PresetValue::{Is, Required};
use super::SettingKind::{Address, Count, File, Hosts, Name, Names, RegionName, Topic, Url, Word};
use super::{DAY, MINUTE, Reload, Section, Setting, limits, seconds};

settings! {
    ENGINE_KIND = Engine "kind" Word(&["embedded", "memory", "aws"]), Required,
        "Where records lie: in a directory of this machine, in the memory of one process, or in DynamoDB and Kinesis.", Restart;
    ENGINE_DIRECTORY = Engine "directory" File, Is(""),
        "With `embedded`: the directory that holds everything; one process at a time opens it.", Restart;
    ENGINE_REGION = Engine "region" RegionName, Is(""),
        "With `aws`: the home region, where the catalogue and the views lie.", Restart;
    ENGINE_PREFIX = Engine "prefix" Name, Is("nearside"),
        "With `aws`: how the names of all tables and streams begin.", Restart;
    ENGINE_ENDPOINT_URL = Engine "endpoint_url" Url, Is(""),
        "With `aws`: overrides every endpoint, for an emulator; `AWS_ENDPOINT_URL` does too where this is not written.", Restart;

    CATALOGUE_LISTEN = Catalogue "listen" Address, Is("127.0.0.1:8740"),
        "Where writers reach the catalogue; port 0 picks a free one.", Restart;
    CATALOGUE_ADMIN = Catalogue "admin" Address, Is("127.0.0.1:8741"),
        "Where the catalogue serves `/livez`, `/readyz`, `/status` and `/metrics`.", Restart;
    CATALOGUE_ALLOWED_HOSTS = Catalogue "allowed_hosts" Hosts, Is(""),
        "Hosts accepted in `Host` besides loopback names and addresses, on both ports of the catalogue.", Restart;
    CATALOGUE_MAX_CONNECTIONS = Catalogue "max_connections" Count(1, limits::CONNECTIONS_AT_MOST as u64), Is("1024"),
        "Connections that the catalogue has open at once.", Restart;

    TYPE_NAME = RecordType "name" Name, Required,
        "What the record type is called in paths and in view definitions.", Restart;
    TYPE_SCHEMA = RecordType "schema" File, Is(""),
        "A file with the JSON Schema that records of the type must fit; none takes any JSON object.", Restart;

    VIEWS_ADMIN = Views "admin" Address, Is("127.0.0.1:8743"),
        "Where the views service serves `/livez`, `/readyz`, `/status` and `/metrics`.", Restart;
    VIEWS_ALLOWED_HOSTS = Views "allowed_hosts" Hosts, Is(""),
        "Hosts accepted in `Host` besides loopback names and addresses, on the port of the views service.", Restart;
    VIEWS_FILE = Views "file" File, Is(""),
        "The file with the definitions of the views; `nearside views` needs it.", Restart;
    VIEWS_RATE = Views "rate" Count(1, 100_000), Is("200"),
        "Views that jobs make at most per second, below the quota of the smallest region's topic.", Restart;
    VIEWS_SWEEP = Views "sweep" seconds(MINUTE, 7 * DAY), Is("6h"),
        "In how long everything is compared once, to find what the feeds have skipped.", Restart;

    SERVED_NAME = ServedRegion "name" RegionName, Required,
        "What the region is called; where its tables lie, with the `aws` engine.", Restart;
    SERVED_TOPIC = ServedRegion "topic" Topic, Is(""),
        "The SNS topic on which the region announces its changes; the `aws` engine needs it.", Restart;
    SERVED_LISTEN = ServedRegion "listen" Address, Is("127.0.0.1:8744"),
        "Where sidecars reach the region's node; port 0 picks a free one.", Restart;
    SERVED_ADMIN = ServedRegion "admin" Address, Is("127.0.0.1:8745"),
        "Where the region serves `/livez`, `/readyz`, `/status` and `/metrics`.", Restart;
    SERVED_ALLOWED_HOSTS = ServedRegion "allowed_hosts" Hosts, Is(""),
        "Hosts accepted in `Host` besides loopback names and addresses, on both ports of the region.", Restart;
    SERVED_VIEWS = ServedRegion "views" Names, Is(""),
        "The views that the region takes; none takes them all.", Restart;
    SERVED_COMPRESSION = ServedRegion "compression" Word(&["off", "zstd"]), Is("off"),
        "What the region's node compresses answers of 1 KiB and more with, for sidecars that ask for it.", Restart;
}
