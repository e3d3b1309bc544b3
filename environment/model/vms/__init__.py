"""Offers, pools, leases, reservations and accounts of VMs."""
