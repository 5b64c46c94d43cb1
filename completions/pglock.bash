_pglock() {
    local i cur prev opts cmd
    COMPREPLY=()
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        cur="$2"
    else
        cur="${COMP_WORDS[COMP_CWORD]}"
    fi
    prev="$3"
    cmd=""
    opts=""

    for i in "${COMP_WORDS[@]:0:COMP_CWORD}"
    do
        case "${cmd},${i}" in
            ",$1")
                cmd="pglock"
                ;;
            pglock,check)
                cmd="pglock__subcmd__check"
                ;;
            pglock,help)
                cmd="pglock__subcmd__help"
                ;;
            pglock,key)
                cmd="pglock__subcmd__key"
                ;;
            pglock,list)
                cmd="pglock__subcmd__list"
                ;;
            pglock,release)
                cmd="pglock__subcmd__release"
                ;;
            pglock,run)
                cmd="pglock__subcmd__run"
                ;;
            pglock,try)
                cmd="pglock__subcmd__try"
                ;;
            pglock__subcmd__help,check)
                cmd="pglock__subcmd__help__subcmd__check"
                ;;
            pglock__subcmd__help,help)
                cmd="pglock__subcmd__help__subcmd__help"
                ;;
            pglock__subcmd__help,key)
                cmd="pglock__subcmd__help__subcmd__key"
                ;;
            pglock__subcmd__help,list)
                cmd="pglock__subcmd__help__subcmd__list"
                ;;
            pglock__subcmd__help,release)
                cmd="pglock__subcmd__help__subcmd__release"
                ;;
            pglock__subcmd__help,run)
                cmd="pglock__subcmd__help__subcmd__run"
                ;;
            pglock__subcmd__help,try)
                cmd="pglock__subcmd__help__subcmd__try"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        pglock)
            opts="-d -h -p -U -W -? -V --dbname --host --port --username --password --no-password --help --version run try list release key check help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --dbname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -h)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -p)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -U)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__check)
            opts="-d -h -p -U -W -? -N --dbname --host --port --username --password --no-password --help --namespace --scope --lease --json"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --dbname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -h)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -p)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -U)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -N)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --scope)
                    COMPREPLY=($(compgen -W "session transaction" -- "${cur}"))
                    return 0
                    ;;
                --lease)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__help)
            opts="run try list release key check help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__help__subcmd__check)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__help__subcmd__key)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__help__subcmd__list)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__help__subcmd__release)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__help__subcmd__run)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__help__subcmd__try)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__key)
            opts="-d -h -p -U -W -? -N --dbname --host --port --username --password --no-password --help --namespace --raw --hash --as --all --check"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --dbname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -h)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -p)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -U)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -N)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hash)
                    COMPREPLY=($(compgen -W "sha256 sha256-le sha224 sha1 sha1-le md5 hashtext hashtextextended crc32 crc32-signed fnv1-32 fnv1a-32 fnv1-64 fnv1a-64 java dotnet djb2x djb2x-reversed blake2b advisory-lock closure-tree distributed-lock django-pglock django-pglocks heimdall jakm-pglock oca-connector pals pg-lock pglocker sqlalchemy-dlock sqlx symfony with-advisory-lock yii" -- "${cur}"))
                    return 0
                    ;;
                --as)
                    COMPREPLY=($(compgen -W "rails-migrations golang-migrate golang-migrate-instance grafana goose tern atlas sqlx-migrate sqlx-test prisma-migrate prisma-next node-pg-migrate graphile-migrate kysely postgres-migrations sqitch sequel ecto pgroll reshape flyway liquibase-sessionlock evolve remind101-migrate pinejs boundary dbos warehouse authentik label-studio good-job good-job-process pg-boss graphile-worker-rs-sweep pgqueuer hatchet airflow message-db inst-jobs n8n marten marten-sharded marten-shard wolverine wolverine-scheduled wolverine-tables rails-event-store emmett concourse-component concourse terraform-workspace opentofu-workspace supabase-storage supabase-storage-object supabase-storage-prefix supabase-auth electric sequin-partition spicedb coder immich netbox awx pulp pulp-resource odoo-registry rudderstack rudderstack-sources firefly medusa pg-partman pg-partman-data-proc pg-partman-undo-proc pg-repack pgmq wal-g wal-g-greenplum pgbackrest pgwatch pgwatch-metric promscale" -- "${cur}"))
                    return 0
                    ;;
                --check)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__list)
            opts="-d -h -p -U -W -? -N -a -q --dbname --host --port --username --password --no-password --help --namespace --raw --hash --as --format --json --wide --tree --watch --all-databases --quiet"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --dbname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -h)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -p)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -U)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -N)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hash)
                    COMPREPLY=($(compgen -W "sha256 sha256-le sha224 sha1 sha1-le md5 hashtext hashtextextended crc32 crc32-signed fnv1-32 fnv1a-32 fnv1-64 fnv1a-64 java dotnet djb2x djb2x-reversed blake2b advisory-lock closure-tree distributed-lock django-pglock django-pglocks heimdall jakm-pglock oca-connector pals pg-lock pglocker sqlalchemy-dlock sqlx symfony with-advisory-lock yii" -- "${cur}"))
                    return 0
                    ;;
                --as)
                    COMPREPLY=($(compgen -W "rails-migrations golang-migrate golang-migrate-instance grafana goose tern atlas sqlx-migrate sqlx-test prisma-migrate prisma-next node-pg-migrate graphile-migrate kysely postgres-migrations sqitch sequel ecto pgroll reshape flyway liquibase-sessionlock evolve remind101-migrate pinejs boundary dbos warehouse authentik label-studio good-job good-job-process pg-boss graphile-worker-rs-sweep pgqueuer hatchet airflow message-db inst-jobs n8n marten marten-sharded marten-shard wolverine wolverine-scheduled wolverine-tables rails-event-store emmett concourse-component concourse terraform-workspace opentofu-workspace supabase-storage supabase-storage-object supabase-storage-prefix supabase-auth electric sequin-partition spicedb coder immich netbox awx pulp pulp-resource odoo-registry rudderstack rudderstack-sources firefly medusa pg-partman pg-partman-data-proc pg-partman-undo-proc pg-repack pgmq wal-g wal-g-greenplum pgbackrest pgwatch pgwatch-metric promscale" -- "${cur}"))
                    return 0
                    ;;
                --format)
                    COMPREPLY=($(compgen -W "table json csv prometheus" -- "${cur}"))
                    return 0
                    ;;
                --watch)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__release)
            opts="-d -h -p -U -W -? -N -f -y --dbname --host --port --username --password --no-password --help --namespace --raw --hash --as --force --yes --dry-run --pid --timeout"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --dbname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -h)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -p)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -U)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -N)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hash)
                    COMPREPLY=($(compgen -W "sha256 sha256-le sha224 sha1 sha1-le md5 hashtext hashtextextended crc32 crc32-signed fnv1-32 fnv1a-32 fnv1-64 fnv1a-64 java dotnet djb2x djb2x-reversed blake2b advisory-lock closure-tree distributed-lock django-pglock django-pglocks heimdall jakm-pglock oca-connector pals pg-lock pglocker sqlalchemy-dlock sqlx symfony with-advisory-lock yii" -- "${cur}"))
                    return 0
                    ;;
                --as)
                    COMPREPLY=($(compgen -W "rails-migrations golang-migrate golang-migrate-instance grafana goose tern atlas sqlx-migrate sqlx-test prisma-migrate prisma-next node-pg-migrate graphile-migrate kysely postgres-migrations sqitch sequel ecto pgroll reshape flyway liquibase-sessionlock evolve remind101-migrate pinejs boundary dbos warehouse authentik label-studio good-job good-job-process pg-boss graphile-worker-rs-sweep pgqueuer hatchet airflow message-db inst-jobs n8n marten marten-sharded marten-shard wolverine wolverine-scheduled wolverine-tables rails-event-store emmett concourse-component concourse terraform-workspace opentofu-workspace supabase-storage supabase-storage-object supabase-storage-prefix supabase-auth electric sequin-partition spicedb coder immich netbox awx pulp pulp-resource odoo-registry rudderstack rudderstack-sources firefly medusa pg-partman pg-partman-data-proc pg-partman-undo-proc pg-repack pgmq wal-g wal-g-greenplum pgbackrest pgwatch pgwatch-metric promscale" -- "${cur}"))
                    return 0
                    ;;
                --pid)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__run)
            opts="-d -h -p -U -W -? -w -n -N -E -s -c -o -q -v --dbname --host --port --username --password --no-password --help --timeout --nonblock --max-waiters --namespace --raw --hash --as --conflict-exit-code --shared --command --scope --lease --grace --also --slots --token --hold-at-least --max-runtime --jitter --close --on-lost --quiet --verbose"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --dbname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -h)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -p)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -U)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -w)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-waiters)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -N)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hash)
                    COMPREPLY=($(compgen -W "sha256 sha256-le sha224 sha1 sha1-le md5 hashtext hashtextextended crc32 crc32-signed fnv1-32 fnv1a-32 fnv1-64 fnv1a-64 java dotnet djb2x djb2x-reversed blake2b advisory-lock closure-tree distributed-lock django-pglock django-pglocks heimdall jakm-pglock oca-connector pals pg-lock pglocker sqlalchemy-dlock sqlx symfony with-advisory-lock yii" -- "${cur}"))
                    return 0
                    ;;
                --as)
                    COMPREPLY=($(compgen -W "rails-migrations golang-migrate golang-migrate-instance grafana goose tern atlas sqlx-migrate sqlx-test prisma-migrate prisma-next node-pg-migrate graphile-migrate kysely postgres-migrations sqitch sequel ecto pgroll reshape flyway liquibase-sessionlock evolve remind101-migrate pinejs boundary dbos warehouse authentik label-studio good-job good-job-process pg-boss graphile-worker-rs-sweep pgqueuer hatchet airflow message-db inst-jobs n8n marten marten-sharded marten-shard wolverine wolverine-scheduled wolverine-tables rails-event-store emmett concourse-component concourse terraform-workspace opentofu-workspace supabase-storage supabase-storage-object supabase-storage-prefix supabase-auth electric sequin-partition spicedb coder immich netbox awx pulp pulp-resource odoo-registry rudderstack rudderstack-sources firefly medusa pg-partman pg-partman-data-proc pg-partman-undo-proc pg-repack pgmq wal-g wal-g-greenplum pgbackrest pgwatch pgwatch-metric promscale" -- "${cur}"))
                    return 0
                    ;;
                --conflict-exit-code)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -E)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --command)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -c)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --scope)
                    COMPREPLY=($(compgen -W "session transaction" -- "${cur}"))
                    return 0
                    ;;
                --lease)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --also)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --slots)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hold-at-least)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-runtime)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --jitter)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --on-lost)
                    COMPREPLY=($(compgen -W "stop warn" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        pglock__subcmd__try)
            opts="-d -h -p -U -W -? -N -E -s -c -o -q -v --dbname --host --port --username --password --no-password --help --namespace --raw --hash --as --conflict-exit-code --shared --command --scope --lease --grace --also --slots --token --hold-at-least --max-runtime --jitter --close --on-lost --quiet --verbose"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --dbname)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -d)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -h)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -p)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -U)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -N)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hash)
                    COMPREPLY=($(compgen -W "sha256 sha256-le sha224 sha1 sha1-le md5 hashtext hashtextextended crc32 crc32-signed fnv1-32 fnv1a-32 fnv1-64 fnv1a-64 java dotnet djb2x djb2x-reversed blake2b advisory-lock closure-tree distributed-lock django-pglock django-pglocks heimdall jakm-pglock oca-connector pals pg-lock pglocker sqlalchemy-dlock sqlx symfony with-advisory-lock yii" -- "${cur}"))
                    return 0
                    ;;
                --as)
                    COMPREPLY=($(compgen -W "rails-migrations golang-migrate golang-migrate-instance grafana goose tern atlas sqlx-migrate sqlx-test prisma-migrate prisma-next node-pg-migrate graphile-migrate kysely postgres-migrations sqitch sequel ecto pgroll reshape flyway liquibase-sessionlock evolve remind101-migrate pinejs boundary dbos warehouse authentik label-studio good-job good-job-process pg-boss graphile-worker-rs-sweep pgqueuer hatchet airflow message-db inst-jobs n8n marten marten-sharded marten-shard wolverine wolverine-scheduled wolverine-tables rails-event-store emmett concourse-component concourse terraform-workspace opentofu-workspace supabase-storage supabase-storage-object supabase-storage-prefix supabase-auth electric sequin-partition spicedb coder immich netbox awx pulp pulp-resource odoo-registry rudderstack rudderstack-sources firefly medusa pg-partman pg-partman-data-proc pg-partman-undo-proc pg-repack pgmq wal-g wal-g-greenplum pgbackrest pgwatch pgwatch-metric promscale" -- "${cur}"))
                    return 0
                    ;;
                --conflict-exit-code)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -E)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --command)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -c)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --scope)
                    COMPREPLY=($(compgen -W "session transaction" -- "${cur}"))
                    return 0
                    ;;
                --lease)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --also)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --slots)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --hold-at-least)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-runtime)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --jitter)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --on-lost)
                    COMPREPLY=($(compgen -W "stop warn" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
    esac
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _pglock -o nosort -o bashdefault -o default pglock
else
    complete -F _pglock -o bashdefault -o default pglock
fi

# Within COMMAND of run and try whatever completes COMMAND itself, elsewhere the above.
_pglock_or_command() {
    local at=1 word seen=0 options=1
    for ((; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        case "$options,$word" in
            1,--) options=0 ;;
            1,-c | 1,--command) break ;;
            1,--also | 1,--as | 1,--conflict-exit-code | 1,--dbname | 1,--grace | 1,--hash | 1,--hold-at-least | 1,--host | 1,--jitter | 1,--lease | 1,--max-runtime | 1,--max-waiters | 1,--namespace | 1,--on-lost | 1,--port | 1,--scope | 1,--slots | 1,--timeout | 1,--username | 1,-E | 1,-N | 1,-U | 1,-d | 1,-h | 1,-p | 1,-w)
                [[ ${COMP_WORDS[at + 1]} == '=' ]] && ((at++))
                ((at++))
                ;;
            1,-*) ;;
            *)
                # The verb, the name, and the first word of COMMAND.
                ((++seen))
                [[ $seen -eq 1 && $word != run && $word != try ]] && break
                [[ $seen -eq 3 ]] && break
                ;;
        esac
    done
    if [[ $seen -eq 3 || ($seen -eq 2 && $at -eq $COMP_CWORD && ($options -eq 0 || $2 != -*)) ]]; then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$at"
        elif [[ $at -eq $COMP_CWORD ]]; then
            mapfile -t COMPREPLY < <(compgen -c -- "$2")
        else
            # Files, by `-o default`.
            COMPREPLY=()
        fi
    else
        _pglock "$@"
    fi
}
complete -F _pglock_or_command -o bashdefault -o default pglock
