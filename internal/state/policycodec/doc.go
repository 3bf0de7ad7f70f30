// Package policycodec reads and writes the stored objects of our API groups: their scheme, the storage codec, and the
// handling of bytes that this release cannot read. Such an object is quarantined, not dropped: it may have denied
// something (SV-8).
package policycodec
