"""The policy table of the OpenStack APIs: which role, in which scope, may do what. Nothing else decides that.

An action ("identity:create_user", as OpenStack names it) is allowed if any one of its rules holds. A rule asks for a
role by name (roles are closed under implication: admin has manager, member and reader), for a kind of scope, and
that the target lies where the scope is. `could` is asked before a target is known, `require` when it is.

    admin      on a project or the system: of the whole cloud, as OpenStack's clients expect
               on a domain: of that domain only, and it can not make another admin (commands look at that)
    manager    runs the users, projects and grants of its domain; gives no more than manager
    member     uses a project
    reader     looks at a project, a domain, or on the system at all
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from banyan.core.errors import Refused
from banyan.core.principal import Principal, ScopeKind

ADMIN_ROLE, MANAGER_ROLE, MEMBER_ROLE, READER_ROLE = "admin", "manager", "member", "reader"


class Where(Enum):
    """What a rule asks of its target: nothing, or that it is of the caller's domain, project, or the caller."""

    ANYWHERE = "anywhere"
    DOMAIN = "in the domain of the token"
    PROJECT = "in the project of the token"
    HOME = "in the domain of the token or of its project"
    SELF = "of the user"
    LOCAL = "asked at the zone's own machine"


@dataclass(frozen=True, slots=True)
class Rule:
    """`role` "" is any, also none. `scopes` are those in which the rule counts."""

    role: str
    scopes: frozenset[ScopeKind]
    where: Where

    def could(self, who: Principal) -> bool:
        return who.scope in self.scopes and (not self.role or self.role in who.roles)

    def holds(self, who: Principal, target: Target) -> bool:
        if not self.could(who):
            return False
        # Each request comes here several times: what most rules say first, and by identity.
        if self.where is Where.ANYWHERE:
            return True
        if self.where is Where.PROJECT:
            return bool(who.project) and target.project == who.project
        match self.where:
            case Where.DOMAIN:
                return bool(who.domain) and target.domain == who.domain
            case Where.HOME:
                return bool(target.domain) and target.domain in (who.domain, who.project_domain)
            case Where.SELF:
                return bool(who.user) and target.user == who.user
            case Where.LOCAL:
                return not who.user

    def __str__(self) -> str:
        """As a refusal and the documents say it."""
        role = f"the role {self.role}" if self.role else "any token"
        scopes = " or ".join(sorted(scope.value for scope in self.scopes))
        scope = "" if self.scopes == _ANY else f" on a {scopes}"
        return f"{role}{scope}" + ("" if self.where is Where.ANYWHERE else f" ({self.where.value})")


@dataclass(frozen=True, slots=True)
class Target:
    """Whose a thing is, as ids; "" where it is nobody's."""

    domain: str = ""
    project: str = ""
    user: str = ""


NOTHING = Target()

_ANY = frozenset(ScopeKind)
_P, _D, _S = frozenset({ScopeKind.PROJECT}), frozenset({ScopeKind.DOMAIN}), frozenset({ScopeKind.SYSTEM})

ADMIN = Rule(ADMIN_ROLE, _P | _S, Where.ANYWHERE)
SYSTEM_READER = Rule(READER_ROLE, _S, Where.ANYWHERE)
DOMAIN_ADMIN = Rule(ADMIN_ROLE, _D, Where.DOMAIN)
DOMAIN_MANAGER = Rule(MANAGER_ROLE, _D, Where.DOMAIN)
DOMAIN_READER = Rule(READER_ROLE, _D, Where.DOMAIN)
# Of what belongs to no domain, and whoever runs one must know.
ANY_DOMAIN_READER = Rule(READER_ROLE, _D, Where.ANYWHERE)
PROJECT_MANAGER = Rule(MANAGER_ROLE, _P, Where.PROJECT)
PROJECT_MEMBER = Rule(MEMBER_ROLE, _P, Where.PROJECT)
PROJECT_READER = Rule(READER_ROLE, _P, Where.PROJECT)
HOME_DOMAIN = Rule("", _ANY, Where.HOME)
SELF = Rule("", _ANY, Where.SELF)
# Whoever stands at the zone's own machine is no user of its cloud, and may make a key for one.
LOCAL = Rule(ADMIN_ROLE, _S, Where.LOCAL)
ANYONE = Rule("", _ANY, Where.ANYWHERE)

# Rules, then the actions that they allow: the whole policy.
_IDENTITY: tuple[tuple[tuple[Rule, ...], str], ...] = (
    ((ADMIN, SYSTEM_READER, DOMAIN_READER), """
        list_users get_group list_groups list_users_in_group check_user_in_group
        list_projects list_domains list_role_assignments list_grants check_grant"""),
    ((ADMIN, SYSTEM_READER, ANY_DOMAIN_READER), "get_role list_roles"),
    ((ADMIN, SYSTEM_READER, DOMAIN_READER, SELF), "get_user list_groups_for_user list_user_projects"),
    ((ADMIN, SYSTEM_READER, DOMAIN_READER, PROJECT_READER), "get_project list_project_tags get_project_tag"),
    ((ADMIN, SYSTEM_READER, HOME_DOMAIN), "get_domain"),
    ((ADMIN, DOMAIN_MANAGER), """
        create_user update_user delete_user create_group update_group delete_group
        add_user_to_group remove_user_from_group
        create_project update_project delete_project
        update_project_tags create_project_tag delete_project_tag
        create_grant revoke_grant"""),
    ((ADMIN,), """
        create_domain update_domain delete_domain
        create_role update_role delete_role create_implied_role delete_implied_role
        create_domain_role update_domain_role delete_domain_role
        create_system_grant revoke_system_grant
        create_region update_region delete_region create_service update_service delete_service
        create_endpoint update_endpoint delete_endpoint verify_signature"""),
    ((ADMIN, SYSTEM_READER), """
        list_system_grants check_system_grant get_implied_role list_implied_roles list_role_inference_rules
        get_domain_role list_domain_roles get_service list_services get_endpoint list_endpoints"""),
    ((ANYONE,), """
        get_region list_regions get_auth_catalog get_auth_projects get_auth_domains get_auth_system"""),
    ((ADMIN, SYSTEM_READER, SELF), """
        get_application_credential list_application_credentials get_access_rule list_access_rules
        get_credential list_credentials ec2_get_credential ec2_list_credentials validate_token"""),
    ((ADMIN, SELF), """
        delete_application_credential delete_access_rule create_credential update_credential delete_credential
        ec2_create_credential ec2_delete_credential revoke_token"""),
    ((LOCAL, SELF), "create_application_credential"),
)  # fmt: skip

# What is asked of servers is server_ and core.server.Action; server_hosts is to see where they lie, server_place to say
# it.
_COMPUTE: tuple[tuple[tuple[Rule, ...], str], ...] = (
    ((PROJECT_MEMBER,), "server_create create_server_group"),
    ((ADMIN, PROJECT_MEMBER), """
        server_change server_delete server_start server_stop server_reboot server_reboot_hard server_rebuild
        server_resize server_confirm_resize server_revert_resize server_pause server_unpause server_suspend
        server_resume server_rescue server_unrescue server_shelve server_unshelve server_snapshot
        server_set_password server_attach server_detach server_lock server_unlock server_console
        delete_server_group delete_image"""),
    ((ADMIN, PROJECT_READER), """
        server_show server_list server_actions server_password
        get_server_group list_server_groups get_flavor_extra_specs
        get_limits get_quota_set get_usage"""),
    ((ADMIN,), """
        server_migrate server_offload server_reset server_list_all server_hosts server_place
        server_events list_all_server_groups
        create_flavor update_flavor delete_flavor update_flavor_extra_specs
        list_flavor_access add_flavor_access remove_flavor_access
        update_quota_set delete_quota_set get_quota_class update_quota_class
        create_aggregate update_aggregate delete_aggregate update_service"""),
    ((ADMIN, SYSTEM_READER), """
        list_usage get_limits_of_others list_services list_hypervisors get_hypervisor list_aggregates get_aggregate
        list_migrations list_availability_zone_hosts"""),
    ((ANYONE,), """
        list_flavors get_flavor list_images get_image list_availability_zones list_extensions get_quota_defaults"""),
    ((ADMIN, SELF), "list_keypairs get_keypair create_keypair delete_keypair"),
)  # fmt: skip


# Of public images, and of those that are shared with the caller's project, zone/images/access.py takes the caller's
# own project as the target.
_IMAGE: tuple[tuple[tuple[Rule, ...], str], ...] = (
    ((ADMIN, PROJECT_MEMBER), """
        add_image modify_image delete_image upload_image import_image download_image communitize_image
        deactivate reactivate add_member modify_member delete_member"""),
    ((ADMIN, SYSTEM_READER, PROJECT_READER), """
        get_image get_images get_member get_members get_image_tasks get_usage"""),
    ((ADMIN,), "publicize_image get_task get_tasks add_task"),
    ((ANYONE,), "get_schema get_info"),
)  # fmt: skip


# Of what a project shares (networks, subnet pools), zone/networks/desk.py lets all see it that use the cloud.
_NETWORK: tuple[tuple[tuple[Rule, ...], str], ...] = (
    ((ADMIN, PROJECT_READER), """
        get_network get_subnet get_subnetpool get_port get_router get_floatingip get_security_group
        get_security_group_rule get_quota"""),
    ((ADMIN, PROJECT_MEMBER), """
        create_network update_network delete_network create_subnet update_subnet delete_subnet
        create_subnetpool update_subnetpool delete_subnetpool create_port update_port delete_port
        create_router update_router delete_router create_floatingip update_floatingip delete_floatingip
        create_security_group update_security_group delete_security_group
        create_security_group_rule delete_security_group_rule"""),
    ((ADMIN,), """
        administer_network administer_port bind_port administer_router administer_floatingip
        administer_security_group get_network_ip_availability list_quotas update_quota"""),
    ((ANYONE,), "get_extension get_availability_zone get_service_provider get_agent"),
)  # fmt: skip


# Of hosts, and of servers of any project: read only.
_PLACEMENT: tuple[tuple[tuple[Rule, ...], str], ...] = (
    ((ADMIN,), "allocations"),
    ((ADMIN, SYSTEM_READER), "resource_providers allocation_candidates resource_classes traits"),
    ((ADMIN, PROJECT_READER), "usages"),
)


def _table() -> Mapping[str, tuple[Rule, ...]]:
    found: dict[str, tuple[Rule, ...]] = {}
    for service, lines in (
        ("identity", _IDENTITY),
        ("compute", _COMPUTE),
        ("image", _IMAGE),
        ("network", _NETWORK),
        ("placement", _PLACEMENT),
    ):
        for rules, actions in lines:
            for word in actions.split():
                action = f"{service}:{word}"
                if action in found:
                    raise ValueError(f"two lines of the policy for {action}")
                found[action] = rules
    return found


POLICY: Mapping[str, tuple[Rule, ...]] = _table()


def could(who: Principal, action: str) -> bool:
    """True if `who` may do that to some target. KeyError for an action that the table does not have."""
    for rule in POLICY[action]:  # noqa: SIM110 - asked several times for each request; a generator costs more
        if rule.could(who):
            return True
    return False


def may(who: Principal, action: str, target: Target = NOTHING) -> bool:
    for rule in POLICY[action]:  # noqa: SIM110 - asked several times for each request; a generator costs more
        if rule.holds(who, target):
            return True
    return False


def anywhere(who: Principal, action: str) -> bool:
    """True if `who` may do that to every target: then it may be told which ones there are not."""
    return any(rule.where is Where.ANYWHERE and rule.could(who) for rule in POLICY[action])


def require(who: Principal, action: str, target: Target = NOTHING) -> None:
    """Raises Refused("forbidden"), which says what would have been enough."""
    if not may(who, action, target):
        raise forbidden(who, action)


def forbidden(who: Principal, action: str) -> Refused:
    wanted = "; or ".join(str(rule) for rule in POLICY[action])
    held = ", ".join(sorted(who.roles)) or "no role"
    scope = "no scope" if who.scope is ScopeKind.NONE else f"a {who.scope.value}'s scope"
    return Refused("forbidden", f"{action} is not allowed: it needs {wanted}. This token has {held}, in {scope}")
