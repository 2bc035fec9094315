package command

import "strings"

// Slots is the number of hash slots of a Redis Cluster.
const Slots = 1 << 14

// Slot returns a key's hash slot, as in the Redis Cluster specification: the slot of the text in
// the first pair of braces, unless it is empty, and otherwise of the whole key.
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

// hashTag returns the part of a key that determines its slot.
func hashTag(key string) string {
	_, rest, opened := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if opened && closed && tag != "" {
		return tag
	}
	return key
}

// crc16 is CRC-16/XMODEM: polynomial 0x1021, not reflected, initial value 0.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
	}
	return crc
}

// FenceKey returns the key of a key's fence counter. tagged is for Redis Clusters, where both
// must have one slot: by the key's own hash tag, or with the whole key as the tag. The keys {a}
// and a then share a counter, which only leaves gaps in their fences.
func FenceKey(key string, tagged bool) string {
	if !tagged || hashTag(key) != key {
		return FencePrefix + key
	}
	return FencePrefix + "{" + key + "}"
}

// CanHaveFenceKey reports whether the tagged counter has its key's slot. It has not if the key
// contains a brace that would end the tag early.
func CanHaveFenceKey(key string) bool { return hashTag(FenceKey(key, true)) == hashTag(key) }
