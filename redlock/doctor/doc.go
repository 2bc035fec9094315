// Package doctor has the report on the nodes that Locker.Diagnose and Locker.Admit return: what each
// node is, and findings with their remedies.
package doctor
