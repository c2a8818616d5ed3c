// Package archive is the format of a backup object: one zstd stream of records, written and read in small memory.
//
//	record  = type (1 byte), length of the payload (uvarint), payload
//	object  = header, then data (full snapshot) or events and leases (delta), then trailer
//
//	type  payload
//	H     JSON of Header
//	D     a piece of the database file
//	E     length of the revision (1 byte), revision as in etcd's key bucket, value as in etcd's key bucket
//	L     lease ID and granted TTL in seconds (8 bytes each, big endian)
//	T     JSON of Trailer, with the SHA-256 of every byte before this record, uncompressed
//
// A reader detects truncation (no trailer), corruption (hash of zstd or of the trailer) and objects of another cluster
// (header). Records must not be relied on before io.EOF was returned.
package archive
