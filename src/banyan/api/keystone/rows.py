"""Every address of the identity API, one row each (api/openstack/table.py)."""

from __future__ import annotations

from banyan.api.keystone import auth, bodies, catalog, discovery, keys, people, projects, roles
from banyan.api.openstack.table import OPEN, Operation, op, op_with
from banyan.core.directory import ActorKind
from banyan.core.principal import ScopeKind

# not-offered: domain configuration, endpoint groups, OAuth 1.0a, stored policies, trusts, and unified limits


def _grants() -> tuple[Operation, ...]:
    """A role of a user or a group on a project, a domain, the system; and for what lies below."""
    rows: list[Operation] = []
    for actor, who in ((ActorKind.USER, "users/{user_id}"), (ActorKind.GROUP, "groups/{group_id}")):
        for kind, where in (
            (ScopeKind.PROJECT, "projects/{project_id}"),
            (ScopeKind.DOMAIN, "domains/{domain_id}"),
            (ScopeKind.SYSTEM, "system"),
        ):
            system = "_system" if kind is ScopeKind.SYSTEM else ""
            base = f"/v3/{where}/{who}/roles"
            rows += _granting(base, base + "/{role_id}", system, roles.granting(kind, actor))
            if kind is not ScopeKind.SYSTEM:
                base, end = f"/v3/OS-INHERIT/{where}/{who}/roles", "/inherited_to_projects"
                handlers = roles.granting(kind, actor, inherited=True)
                rows += _granting(base + end, base + "/{role_id}" + end, system, handlers)
    return tuple(rows)


def _granting(whole: str, one: str, system: str, handlers: tuple[roles.Run, ...]) -> list[Operation]:
    list_, check, give, take = handlers
    return [
        op("GET", whole, list_, f"identity:list{system}_grants"),
        op("GET", one, check, f"identity:check{system}_grant", status=204),
        op("PUT", one, give, f"identity:create{system}_grant", status=204),
        op("DELETE", one, take, f"identity:revoke{system}_grant", status=204),
    ]


_USER, _GROUP, _MEMBER = "/v3/users/{user_id}", "/v3/groups/{group_id}", "/v3/groups/{group_id}/users/{user_id}"
_PROJECT, _TAGS, _TAG = (
    "/v3/projects/{project_id}",
    "/v3/projects/{project_id}/tags",
    "/v3/projects/{project_id}/tags/{tag}",
)
_DOMAIN, _ROLE = "/v3/domains/{domain_id}", "/v3/roles/{role_id}"
_IMPLIES, _IMPLIED = "/v3/roles/{prior_role_id}/implies", "/v3/roles/{prior_role_id}/implies/{implied_role_id}"
_APPCREDS, _RULES = _USER + "/application_credentials", _USER + "/access_rules"
_APPCRED, _RULE = _APPCREDS + "/{application_credential_id}", _RULES + "/{access_rule_id}"
_CREDENTIAL, _EC2S, _EC2 = (
    "/v3/credentials/{credential_id}",
    _USER + "/credentials/OS-EC2",
    _USER + "/credentials/OS-EC2/{access}",
)
_REGION, _SERVICE, _ENDPOINT = "/v3/regions/{region_id}", "/v3/services/{service_id}", "/v3/endpoints/{endpoint_id}"

ROWS: tuple[Operation, ...] = (
    op("GET", "", discovery.versions, OPEN, status=300),
    op("GET", "/", discovery.versions, OPEN, status=300),
    op("GET", "/v3", discovery.version, OPEN),
    op("GET", "/v3/", discovery.version, OPEN),
    # Tokens.
    op_with("POST", "/v3/auth/tokens", auth.log_in, OPEN, body=auth.AuthBody, status=201),
    op("GET", "/v3/auth/tokens", auth.show, "identity:validate_token"),
    op("DELETE", "/v3/auth/tokens", auth.revoke, "identity:revoke_token", status=204),
    op("GET", "/v3/auth/catalog", auth.catalog, "identity:get_auth_catalog"),
    op("GET", "/v3/auth/projects", auth.projects, "identity:get_auth_projects"),
    op("GET", "/v3/auth/domains", auth.domains, "identity:get_auth_domains"),
    op("GET", "/v3/auth/system", auth.system, "identity:get_auth_system"),
    # Users.
    op("GET", "/v3/users", people.list_users, "identity:list_users"),
    op_with("POST", "/v3/users", people.create_user, "identity:create_user", body=bodies.UserCreate, status=201),
    op("GET", _USER, people.show_user, "identity:get_user"),
    op_with("PATCH", _USER, people.update_user, "identity:update_user", body=bodies.UserUpdate),
    op("DELETE", _USER, people.delete_user, "identity:delete_user", status=204),
    op_with("POST", _USER + "/password", people.change_password, OPEN, body=bodies.PasswordUpdate, status=204),
    op("GET", _USER + "/groups", people.user_groups, "identity:list_groups_for_user"),
    op("GET", _USER + "/projects", people.user_projects, "identity:list_user_projects"),
    # Groups.
    op("GET", "/v3/groups", people.list_groups, "identity:list_groups"),
    op_with("POST", "/v3/groups", people.create_group, "identity:create_group", body=bodies.GroupCreate, status=201),
    op("GET", _GROUP, people.show_group, "identity:get_group"),
    op_with("PATCH", _GROUP, people.update_group, "identity:update_group", body=bodies.GroupUpdate),
    op("DELETE", _GROUP, people.delete_group, "identity:delete_group", status=204),
    op("GET", _GROUP + "/users", people.group_users, "identity:list_users_in_group"),
    op("GET", _MEMBER, people.in_group, "identity:check_user_in_group", status=204),
    op("PUT", _MEMBER, people.join_group, "identity:add_user_to_group", status=204),
    op("DELETE", _MEMBER, people.leave_group, "identity:remove_user_from_group", status=204),
    # Projects.
    op("GET", "/v3/projects", projects.list_projects, "identity:list_projects"),
    op_with("POST", "/v3/projects", projects.create_project, "identity:create_project", body=bodies.ProjectCreate,
            status=201),
    op("GET", _PROJECT, projects.show_project, "identity:get_project"),
    op_with("PATCH", _PROJECT, projects.update_project, "identity:update_project", body=bodies.ProjectUpdate),
    op("DELETE", _PROJECT, projects.delete_project, "identity:delete_project", status=204),
    op("GET", _TAGS, projects.list_tags, "identity:list_project_tags"),
    op_with("PUT", _TAGS, projects.put_tags, "identity:update_project_tags", body=bodies.TagsBody),
    op("DELETE", _TAGS, projects.clear_tags, "identity:update_project_tags", status=204),
    op("GET", _TAG, projects.has_tag, "identity:get_project_tag", status=204),
    op("PUT", _TAG, projects.add_tag, "identity:create_project_tag", status=201),
    op("DELETE", _TAG, projects.remove_tag, "identity:delete_project_tag", status=204),
    # Domains.
    op("GET", "/v3/domains", projects.list_domains, "identity:list_domains"),
    op_with("POST", "/v3/domains", projects.create_domain, "identity:create_domain", body=bodies.DomainCreate,
            status=201),
    op("GET", _DOMAIN, projects.show_domain, "identity:get_domain"),
    op_with("PATCH", _DOMAIN, projects.update_domain, "identity:update_domain", body=bodies.DomainUpdate),
    op("DELETE", _DOMAIN, projects.delete_domain, "identity:delete_domain", status=204),
    # Roles.
    op("GET", "/v3/roles", roles.list_all, "identity:list_roles"),
    op_with("POST", "/v3/roles", roles.create, "identity:create_role", body=bodies.RoleCreate, status=201),
    op("GET", _ROLE, roles.show, "identity:get_role"),
    op_with("PATCH", _ROLE, roles.update, "identity:update_role", body=bodies.RoleUpdate),
    op("DELETE", _ROLE, roles.delete, "identity:delete_role", status=204),
    op("GET", _IMPLIES, roles.implied_by, "identity:list_implied_roles"),
    op("GET", _IMPLIED, roles.implication, "identity:get_implied_role"),
    op("HEAD", _IMPLIED, roles.implies, "identity:get_implied_role", status=204),
    op("PUT", _IMPLIED, roles.imply, "identity:create_implied_role", status=201),
    op("DELETE", _IMPLIED, roles.imply_no_more, "identity:delete_implied_role", status=204),
    op("GET", "/v3/role_inferences", roles.inferences, "identity:list_role_inference_rules"),
    # Grants.
    *_grants(),
    op("GET", "/v3/role_assignments", roles.assignments, "identity:list_role_assignments"),
    # Keys.
    op("GET", _APPCREDS, keys.list_application_credentials, "identity:list_application_credentials"),
    op_with("POST", _APPCREDS, keys.create_application_credential, "identity:create_application_credential",
            body=bodies.ApplicationCredentialCreate, status=201),
    op("GET", _APPCRED, keys.show_application_credential, "identity:get_application_credential"),
    op("DELETE", _APPCRED, keys.delete_application_credential, "identity:delete_application_credential", status=204),
    op("GET", _RULES, keys.list_access_rules, "identity:list_access_rules"),
    op("GET", _RULE, keys.show_access_rule, "identity:get_access_rule"),
    op("DELETE", _RULE, keys.delete_access_rule, "identity:delete_access_rule", status=204),
    op("GET", "/v3/credentials", keys.list_credentials, "identity:list_credentials"),
    op_with("POST", "/v3/credentials", keys.create_credential, "identity:create_credential",
            body=bodies.CredentialCreate, status=201),
    op("GET", _CREDENTIAL, keys.show_credential, "identity:get_credential"),
    op_with("PATCH", _CREDENTIAL, keys.update_credential, "identity:update_credential", body=bodies.CredentialUpdate),
    op("DELETE", _CREDENTIAL, keys.delete_credential, "identity:delete_credential", status=204),
    op_with("POST", "/v3/ec2tokens", auth.by_ec2_signature, "identity:verify_signature", body=bodies.Ec2Signature),
    op_with("POST", "/v3/s3tokens", auth.by_s3_signature, "identity:verify_signature", body=bodies.S3Signature,
            most=128 * 1024),
    op("GET", _EC2S, keys.list_ec2, "identity:ec2_list_credentials"),
    op_with("POST", _EC2S, keys.create_ec2, "identity:ec2_create_credential", body=bodies.Ec2Create, status=201),
    op("GET", _EC2, keys.show_ec2, "identity:ec2_get_credential"),
    op("DELETE", _EC2, keys.delete_ec2, "identity:ec2_delete_credential", status=204),
    # The catalogue.
    op("GET", "/v3/regions", catalog.list_regions, "identity:list_regions"),
    op_with("POST", "/v3/regions", catalog.create_region, "identity:create_region", body=bodies.RegionCreate,
            status=201),
    op("GET", _REGION, catalog.show_region, "identity:get_region"),
    op_with("PUT", _REGION, catalog.create_named_region, "identity:create_region", body=bodies.RegionCreate,
            status=201),
    op_with("PATCH", _REGION, catalog.update_region, "identity:update_region", body=bodies.RegionUpdate),
    op("DELETE", _REGION, catalog.delete_region, "identity:delete_region", status=204),
    op("GET", "/v3/services", catalog.list_services, "identity:list_services"),
    op_with("POST", "/v3/services", catalog.create_service, "identity:create_service", body=bodies.ServiceCreate,
            status=201),
    op("GET", _SERVICE, catalog.show_service, "identity:get_service"),
    op_with("PATCH", _SERVICE, catalog.update_service, "identity:update_service", body=bodies.ServiceUpdate),
    op("DELETE", _SERVICE, catalog.delete_service, "identity:delete_service", status=204),
    op("GET", "/v3/endpoints", catalog.list_endpoints, "identity:list_endpoints"),
    op_with("POST", "/v3/endpoints", catalog.create_endpoint, "identity:create_endpoint", body=bodies.EndpointCreate,
            status=201),
    op("GET", _ENDPOINT, catalog.show_endpoint, "identity:get_endpoint"),
    op_with("PATCH", _ENDPOINT, catalog.update_endpoint, "identity:update_endpoint", body=bodies.EndpointUpdate),
    op("DELETE", _ENDPOINT, catalog.delete_endpoint, "identity:delete_endpoint", status=204),
)  # fmt: skip
