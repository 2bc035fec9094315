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
