// Package fieldpermissions is the system for field permissions: who may change which fields, declared in
// FieldPermissions and in the schemas of custom resources.
package fieldpermissions
