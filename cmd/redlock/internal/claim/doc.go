// Package claim is `redlock acquire`, `extend` and `release`: locks that are held by a claim.
//
//	acquire.go    `acquire`
//	claim.go      `extend` and `release`
package claim
