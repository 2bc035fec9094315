package wire

import "strings"

// Slots is how many hash slots a Redis Cluster parts its keys into.
const Slots = 1 << 14

// Slot is a key's hash slot, as the Redis Cluster specification says it: of what stands in
// the first pair of braces, unless that is nothing, and of the whole key otherwise.
func Slot(key string) int {
	return int(crc16(hashTag(key))) % Slots
}

// SameSlot reports whether a Redis Cluster keeps all keys on one master.
func SameSlot(keys []string) bool {
	for _, k := range keys {
		if Slot(k) != Slot(keys[0]) {
			return false
		}
	}
	return true
}

// hashTag is the part of a key that its slot is found by.
func hashTag(key string) string {
	_, rest, opened := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if opened && closed && tag != "" {
		return tag
	}
	return key
}

// crc16 is that of XMODEM: polynomial 0x1021, nothing reflected, from 0.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8 //nolint:gosec // below 256
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()

// FenceKey is the key of a key's fence counter. Tagged is for Redis Clusters, where both
// must have one slot: by the key's own hash tag, or with the whole key as the tag. The
// counter of {a} is that of a, too, which costs nobody more than a gap in his numbers.
func FenceKey(key string, tagged bool) string {
	if !tagged || hashTag(key) != key {
		return FencePrefix + key
	}
	return FencePrefix + "{" + key + "}"
}

// CanHaveFenceKey reports whether the tagged counter has its key's slot. It has not where the
// key has a brace that would end the tag early.
func CanHaveFenceKey(key string) bool { return hashTag(FenceKey(key, true)) == hashTag(key) }
