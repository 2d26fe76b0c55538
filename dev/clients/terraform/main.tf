# The same small cloud as the other clients make: an image, a network, a key, a server with a floating address.
terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}

provider "openstack" {}

data "openstack_compute_flavor_v2" "small" {
  name = "m1.tiny"
}

resource "openstack_networking_network_v2" "net" {
  name = "terraform-net"
}

resource "openstack_networking_subnet_v2" "subnet" {
  name       = "terraform-subnet"
  network_id = openstack_networking_network_v2.net.id
  cidr       = "10.50.0.0/24"
  ip_version = 4
}

resource "openstack_networking_secgroup_v2" "web" {
  name = "terraform-web"
}

resource "openstack_networking_secgroup_rule_v2" "http" {
  direction         = "ingress"
  ethertype         = "IPv4"
  protocol          = "tcp"
  port_range_min    = 80
  port_range_max    = 80
  remote_ip_prefix  = "0.0.0.0/0"
  security_group_id = openstack_networking_secgroup_v2.web.id
}

resource "openstack_compute_keypair_v2" "key" {
  name = "terraform-key"
}

resource "openstack_images_image_v2" "image" {
  name             = "terraform.image"
  local_file_path  = "${path.module}/main.tf"
  container_format = "bare"
  disk_format      = "raw"
}

resource "openstack_compute_instance_v2" "server" {
  name            = "terraform.server"
  image_id        = openstack_images_image_v2.image.id
  flavor_id       = data.openstack_compute_flavor_v2.small.id
  key_pair        = openstack_compute_keypair_v2.key.name
  security_groups = [openstack_networking_secgroup_v2.web.name]
  metadata        = { role = "web" }

  network {
    uuid = openstack_networking_subnet_v2.subnet.network_id
  }
}
