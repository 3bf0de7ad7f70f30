// Package subject has the flags by which every command names users, groups and service accounts.
package subject
