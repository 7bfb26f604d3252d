package rdmadev

import "github.com/Mellanox/rdmamap"

// rdmaMap is the Mapper of the real directories.
type rdmaMap struct{}

func (rdmaMap) CharDevices(device string) []string { return rdmamap.GetRdmaCharDevices(device) }

func (rdmaMap) DeviceOf(netdev string) string {
	device, err := rdmamap.GetRdmaDeviceForNetdevice(netdev)
	if err != nil {
		return ""
	}
	return device
}
