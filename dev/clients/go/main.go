// What programs in Go do, by gophercloud: the library of Terraform's provider, of Packer and of Kubernetes' OpenStack parts.
// The environment has OS_AUTH_URL, OS_USERNAME and so on, and OS_CACERT. Each step is one line of JSON.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/ioutil"
	"net/http"
	"os"

	"github.com/gophercloud/gophercloud"
	"github.com/gophercloud/gophercloud/openstack"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/attachinterfaces"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/availabilityzones"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/hypervisors"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/keypairs"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/limits"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/pauseunpause"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/quotasets"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/secgroups"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/servergroups"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/services"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/startstop"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/suspendresume"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/tags"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/openstack/imageservice/v2/imagedata"
	"github.com/gophercloud/gophercloud/openstack/imageservice/v2/images"
	"github.com/gophercloud/gophercloud/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/openstack/networking/v2/subnets"
)

const wait = 120 // seconds

// step says how a part went; a failed one does not end the scenario.
func step(name string, do func() error) {
	told := map[string]string{"name": name, "verdict": "passed", "why": ""}
	if err := do(); err != nil {
		told["verdict"], told["why"] = "failed", err.Error()
	}
	line, _ := json.Marshal(told)
	fmt.Println(string(line))
}

// first is the first error of several, so that a step may ask for several things.
func first(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func want(holds bool, told string) error {
	if !holds {
		return errors.New("not as wanted: " + told)
	}
	return nil
}

func connect(options gophercloud.AuthOptions) (*gophercloud.ProviderClient, error) {
	pem, err := ioutil.ReadFile(os.Getenv("OS_CACERT"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client, err := openstack.NewClient(options.IdentityEndpoint)
	if err != nil {
		return nil, err
	}
	client.HTTPClient = http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	return client, openstack.Authenticate(client, options)
}

func main() {
	var provider *gophercloud.ProviderClient
	var identity, compute, network, image *gophercloud.ServiceClient
	var options gophercloud.AuthOptions
	region := gophercloud.EndpointOpts{Region: os.Getenv("OS_REGION_NAME")}
	step("openstack.Authenticate, and the four services of the catalogue", func() (err error) {
		if options, err = openstack.AuthOptionsFromEnv(); err != nil {
			return err
		}
		if provider, err = connect(options); err != nil {
			return err
		}
		var errs [4]error
		identity, errs[0] = openstack.NewIdentityV3(provider, region)
		compute, errs[1] = openstack.NewComputeV2(provider, region)
		network, errs[2] = openstack.NewNetworkV2(provider, region)
		image, errs[3] = openstack.NewImageServiceV2(provider, region)
		return first(errs[:]...)
	})
	if identity == nil || compute == nil || network == nil || image == nil {
		os.Exit(1)
	}
	picture := pictures(image)
	net, outside, router := wires(network)
	flavor := around(compute)
	life(compute, picture, flavor)
	wired(compute, network, picture, flavor, net, outside)
	people(identity, compute, options, region, picture, flavor)
	step("everything is deleted", func() error {
		_, err := routers.RemoveInterface(network, router.ID, routers.RemoveInterfaceOpts{SubnetID: subnetOf(network, net)}).Extract()
		return first(err, routers.Delete(network, router.ID).ExtractErr(), networks.Delete(network, net).ExtractErr(),
			networks.Delete(network, outside).ExtractErr(), images.Delete(image, picture).ExtractErr())
	})
}

func pictures(image *gophercloud.ServiceClient) (id string) {
	data := bytes.Repeat([]byte("a disk would be here"), 4096)
	step("images.Create, imagedata.Upload, Download: the same bytes", func() error {
		public := images.ImageVisibilityPublic
		made, err := images.Create(image, images.CreateOpts{Name: "go.image", DiskFormat: "raw", ContainerFormat: "bare",
			Visibility: &public, Properties: map[string]string{"os_distro": "none"}}).Extract()
		if err != nil {
			return err
		}
		id = made.ID
		if err = imagedata.Upload(image, id, bytes.NewReader(data)).ExtractErr(); err != nil {
			return err
		}
		back, err := imagedata.Download(image, id).Extract()
		if err != nil {
			return err
		}
		got, err := ioutil.ReadAll(back)
		return first(err, want(bytes.Equal(got, data), "other bytes"))
	})
	step("images.Get, Update, List by tag", func() error {
		shown, err := images.Get(image, id).Extract()
		if err != nil {
			return err
		}
		_, err = images.Update(image, id, images.UpdateOpts{images.ReplaceImageTags{NewTags: []string{"blue"}},
			images.ReplaceImageName{NewName: "go.image.2"}}).Extract()
		if err != nil {
			return err
		}
		pages, err := images.List(image, images.ListOpts{Tags: []string{"blue"}, Limit: 1}).AllPages()
		if err != nil {
			return err
		}
		all, err := images.ExtractImages(pages)
		return first(err, want(len(all) == 1 && all[0].Name == "go.image.2", "another list"),
			want(shown.Status == images.ImageStatusActive && shown.SizeBytes == int64(len(data)), "not active"))
	})
	return id
}

func subnetOf(network *gophercloud.ServiceClient, net string) string {
	shown, err := networks.Get(network, net).Extract()
	if err != nil || len(shown.Subnets) == 0 {
		return ""
	}
	return shown.Subnets[0]
}

func wires(network *gophercloud.ServiceClient) (net string, outside string, router *routers.Router) {
	router = &routers.Router{}
	step("networks.Create, subnets.Create", func() error {
		made, err := networks.Create(network, networks.CreateOpts{Name: "go-net"}).Extract()
		if err != nil {
			return err
		}
		net = made.ID
		_, err = subnets.Create(network, subnets.CreateOpts{NetworkID: net, Name: "go-subnet", IPVersion: 4, CIDR: "10.40.0.0/24"}).Extract()
		return err
	})
	step("external network, router with gateway and interface", func() error {
		yes, no := true, false
		made, err := networks.Create(network, external.CreateOptsExt{CreateOptsBuilder: networks.CreateOpts{Name: "go-outside"}, External: &yes}).Extract()
		if err != nil {
			return err
		}
		outside = made.ID
		_, err = subnets.Create(network, subnets.CreateOpts{NetworkID: outside, IPVersion: 4, CIDR: "100.65.0.0/24", EnableDHCP: &no}).Extract()
		if err != nil {
			return err
		}
		got, err := routers.Create(network, routers.CreateOpts{Name: "go-router", GatewayInfo: &routers.GatewayInfo{NetworkID: outside}}).Extract()
		if err != nil {
			return err
		}
		router = got
		_, err = routers.AddInterface(network, router.ID, routers.AddInterfaceOpts{SubnetID: subnetOf(network, net)}).Extract()
		return err
	})
	step("security groups and rules", func() error {
		group, err := groups.Create(network, groups.CreateOpts{Name: "go-group"}).Extract()
		if err != nil {
			return err
		}
		_, err = rules.Create(network, rules.CreateOpts{SecGroupID: group.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4,
			Protocol: rules.ProtocolTCP, PortRangeMin: 22, PortRangeMax: 22}).Extract()
		return first(err, groups.Delete(network, group.ID).ExtractErr())
	})
	step("ports.Create, Update, List, Delete", func() error {
		made, err := ports.Create(network, ports.CreateOpts{NetworkID: net, Name: "go-port"}).Extract()
		if err != nil {
			return err
		}
		name := "go-port-2"
		_, err = ports.Update(network, made.ID, ports.UpdateOpts{Name: &name}).Extract()
		if err != nil {
			return err
		}
		pages, err := ports.List(network, ports.ListOpts{Name: name, Limit: 1}).AllPages()
		if err != nil {
			return err
		}
		all, err := ports.ExtractPorts(pages)
		return first(err, want(len(all) == 1, "not one"), ports.Delete(network, made.ID).ExtractErr())
	})
	return net, outside, router
}

func flavorOf(compute *gophercloud.ServiceClient, name string) (string, error) {
	pages, err := flavors.ListDetail(compute, flavors.ListOpts{Limit: 2}).AllPages()
	if err != nil {
		return "", err
	}
	all, err := flavors.ExtractFlavors(pages)
	for _, one := range all {
		if one.Name == name {
			return one.ID, err
		}
	}
	return "", first(err, errors.New("no flavor "+name))
}

func around(compute *gophercloud.ServiceClient) (flavor string) {
	step("flavors.ListDetail, in pages", func() (err error) {
		flavor, err = flavorOf(compute, "m1.tiny")
		return err
	})
	step("hypervisors, services, availability zones, limits", func() error {
		pages, err := hypervisors.List(compute).AllPages()
		if err != nil {
			return err
		}
		all, err := hypervisors.ExtractHypervisors(pages)
		if err != nil {
			return err
		}
		_, err1 := services.List(compute, services.ListOpts{}).AllPages()
		_, err2 := limits.Get(compute, limits.GetOpts{}).Extract()
		zones, err3 := availabilityzones.List(compute).AllPages()
		if err = first(err1, err2, err3, want(len(all) > 0, "no hypervisor")); err != nil {
			return err
		}
		found, err := availabilityzones.ExtractAvailabilityZones(zones)
		for _, one := range found {
			if one.ZoneName == "edge" {
				return err
			}
		}
		return errors.New("no zone edge")
	})
	return flavor
}

func life(compute *gophercloud.ServiceClient, image, flavor string) {
	var id string
	newer := *compute
	newer.Microversion = "2.79"
	until := func(status string) error { return servers.WaitForStatus(compute, id, status, wait) }
	step("servers.Create, networks none, WaitForStatus", func() error {
		made, err := servers.Create(&newer, servers.CreateOpts{Name: "go.server", ImageRef: image, FlavorRef: flavor,
			Networks: "none", Metadata: map[string]string{"a": "b"}, UserData: []byte("#!/bin/sh\n")}).Extract()
		if err != nil {
			return err
		}
		id = made.ID
		return until("ACTIVE")
	})
	step("servers.Get, List by name in pages, Update", func() error {
		shown, err := servers.Get(compute, id).Extract()
		if err != nil {
			return err
		}
		pages, err := servers.List(compute, servers.ListOpts{Name: "^go\\.server$", Limit: 1}).AllPages()
		if err != nil {
			return err
		}
		all, err := servers.ExtractServers(pages)
		if err = first(err, want(len(all) == 1 && shown.Metadata["a"] == "b", "another")); err != nil {
			return err
		}
		_, err = servers.Update(compute, id, servers.UpdateOpts{Name: "go.renamed"}).Extract()
		return err
	})
	step("servers.UpdateMetadata, tags.Add", func() error {
		_, err := servers.UpdateMetadata(compute, id, servers.MetadataOpts{"c": "d"}).Extract()
		tagged := *compute
		tagged.Microversion = "2.26"
		return first(err, tags.Add(&tagged, id, "blue").ExtractErr(), servers.DeleteMetadatum(compute, id, "c").ExtractErr())
	})
	for _, one := range []struct {
		name, status string
		do           func() error
	}{
		{"startstop.Stop", "SHUTOFF", func() error { return startstop.Stop(compute, id).ExtractErr() }},
		{"startstop.Start", "ACTIVE", func() error { return startstop.Start(compute, id).ExtractErr() }},
		{"servers.Reboot", "ACTIVE", func() error {
			return servers.Reboot(compute, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr()
		}},
		{"pauseunpause.Pause", "PAUSED", func() error { return pauseunpause.Pause(compute, id).ExtractErr() }},
		{"pauseunpause.Unpause", "ACTIVE", func() error { return pauseunpause.Unpause(compute, id).ExtractErr() }},
		{"suspendresume.Suspend", "SUSPENDED", func() error { return suspendresume.Suspend(compute, id).ExtractErr() }},
		{"suspendresume.Resume", "ACTIVE", func() error { return suspendresume.Resume(compute, id).ExtractErr() }},
		{"servers.Rebuild", "ACTIVE", func() error {
			_, err := servers.Rebuild(compute, id, servers.RebuildOpts{ImageRef: image, Name: "go.rebuilt"}).Extract()
			return err
		}},
		{"servers.Resize", "VERIFY_RESIZE", func() error {
			bigger, err := flavorOf(compute, "m1.small")
			return first(err, servers.Resize(compute, id, servers.ResizeOpts{FlavorRef: bigger}).ExtractErr())
		}},
		{"servers.ConfirmResize", "ACTIVE", func() error { return servers.ConfirmResize(compute, id).ExtractErr() }},
	} {
		step(one.name, func() error { return first(one.do(), until(one.status)) })
	}
	step("servers.ShowConsoleOutput", func() error {
		_, err := servers.ShowConsoleOutput(compute, id, servers.ShowConsoleOutputOpts{Length: 5}).Extract()
		return err
	})
	step("servergroups", func() error {
		made, err := servergroups.Create(compute, servergroups.CreateOpts{Name: "go-apart", Policies: []string{"anti-affinity"}}).Extract()
		if err != nil {
			return err
		}
		return servergroups.Delete(compute, made.ID).ExtractErr()
	})
	step("servers.Delete, until it is not found", func() error { return deleted(compute, id) })
}

func deleted(compute *gophercloud.ServiceClient, id string) error {
	if err := servers.Delete(compute, id).ExtractErr(); err != nil {
		return err
	}
	return gophercloud.WaitFor(wait, func() (bool, error) {
		_, err := servers.Get(compute, id).Extract()
		if _, gone := err.(gophercloud.ErrDefault404); gone {
			return true, nil
		}
		return false, err
	})
}

func wired(compute, network *gophercloud.ServiceClient, image, flavor, net, outside string) {
	var id, port string
	step("keypairs.Create, a server with network, key and security group", func() error {
		if _, err := keypairs.Create(compute, keypairs.CreateOpts{Name: "go-key"}).Extract(); err != nil {
			return err
		}
		made, err := servers.Create(compute, keypairs.CreateOptsExt{KeyName: "go-key", CreateOptsBuilder: servers.CreateOpts{
			Name: "go-wired", ImageRef: image, FlavorRef: flavor, SecurityGroups: []string{"default"},
			Networks: []servers.Network{{UUID: net}}}}).Extract()
		if err != nil {
			return err
		}
		id = made.ID
		return servers.WaitForStatus(compute, id, "ACTIVE", wait)
	})
	step("attachinterfaces.List, secgroups.ListByServer", func() error {
		pages, err := attachinterfaces.List(compute, id).AllPages()
		if err != nil {
			return err
		}
		all, err := attachinterfaces.ExtractInterfaces(pages)
		if err = first(err, want(len(all) == 1, "not one")); err != nil {
			return err
		}
		port = all[0].PortID
		pages, err = secgroups.ListByServer(compute, id).AllPages()
		if err != nil {
			return err
		}
		mine, err := secgroups.ExtractSecurityGroups(pages)
		return first(err, want(len(mine) == 1 && mine[0].Name == "default", "another group"))
	})
	step("floatingips.Create, at the server's port, Delete", func() error {
		made, err := floatingips.Create(network, floatingips.CreateOpts{FloatingNetworkID: outside, PortID: port}).Extract()
		if err != nil {
			return err
		}
		return floatingips.Delete(network, made.ID).ExtractErr()
	})
	step("servers.Delete, keypairs.Delete", func() error {
		return first(deleted(compute, id), keypairs.Delete(compute, "go-key").ExtractErr())
	})
}

func people(identity, compute *gophercloud.ServiceClient, options gophercloud.AuthOptions, region gophercloud.EndpointOpts, image, flavor string) {
	step("project, user, role, quota; a server by an application credential; all deleted", func() error {
		project, err := projects.Create(identity, projects.CreateOpts{Name: "go-project", DomainID: "default"}).Extract()
		if err != nil {
			return err
		}
		user, err := users.Create(identity, users.CreateOpts{Name: "go-user", Password: "a long passphrase", DomainID: "default"}).Extract()
		if err != nil {
			return err
		}
		pages, err := roles.List(identity, roles.ListOpts{Name: "member"}).AllPages()
		if err != nil {
			return err
		}
		found, err := roles.ExtractRoles(pages)
		if err = first(err, want(len(found) == 1, "no role member")); err != nil {
			return err
		}
		err = roles.Assign(identity, found[0].ID, roles.AssignOpts{UserID: user.ID, ProjectID: project.ID}).ExtractErr()
		if err != nil {
			return err
		}
		if _, err = quotasets.Update(compute, project.ID, quotasets.UpdateOpts{Instances: gophercloud.IntToPointer(1)}).Extract(); err != nil {
			return err
		}
		own, err := connect(gophercloud.AuthOptions{IdentityEndpoint: options.IdentityEndpoint, UserID: user.ID,
			Password: "a long passphrase", TenantID: project.ID})
		if err != nil {
			return err
		}
		mine, err := openstack.NewIdentityV3(own, region)
		if err != nil {
			return err
		}
		key, err := applicationcredentials.Create(mine, user.ID, applicationcredentials.CreateOpts{Name: "go-robot"}).Extract()
		if err != nil {
			return err
		}
		robot, err := connect(gophercloud.AuthOptions{IdentityEndpoint: options.IdentityEndpoint,
			ApplicationCredentialID: key.ID, ApplicationCredentialSecret: key.Secret})
		if err != nil {
			return err
		}
		theirs, err := openstack.NewComputeV2(robot, region)
		if err != nil {
			return err
		}
		theirs.Microversion = "2.37"
		ask := servers.CreateOpts{Name: "go-mine", ImageRef: image, FlavorRef: flavor, Networks: "none"}
		made, err := servers.Create(theirs, ask).Extract()
		if err != nil {
			return err
		}
		_, over := servers.Create(theirs, ask).Extract()
		_, refused := over.(gophercloud.ErrDefault403)
		return first(servers.WaitForStatus(theirs, made.ID, "ACTIVE", wait), want(refused, "the quota did not hold"),
			deleted(theirs, made.ID), applicationcredentials.Delete(mine, user.ID, key.ID).ExtractErr(),
			users.Delete(identity, user.ID).ExtractErr(), projects.Delete(identity, project.ID).ExtractErr())
	})
}
