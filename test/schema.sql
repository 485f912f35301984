-- What the migrations make. Refresh with: npx vitest run test/db/schema.test.ts -u

table api_keys
  tenant_id text collate "C" not null
  api_key_id uuid not null
  name text not null
  key_sha256 bytea not null
  scopes text[] not null
  rotates uuid
  created_at timestamp with time zone not null default clock_timestamp()
  expires_at timestamp with time zone
  revoked_at timestamp with time zone
  last_used_at timestamp with time zone
  constraint api_keys_key_sha256_check CHECK ((length(key_sha256) = 32))
  constraint api_keys_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200)))
  constraint api_keys_pkey PRIMARY KEY (tenant_id, api_key_id)
  constraint api_keys_scopes_check CHECK (((cardinality(scopes) >= 1) AND (cardinality(scopes) <= 100)))
  constraint api_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table approval_votes
  tenant_id text collate "C" not null
  approval_id uuid not null
  person text not null
  decision text
  answer_sha256 bytea not null
  voted_at timestamp with time zone not null default clock_timestamp()
  constraint approval_votes_pkey PRIMARY KEY (tenant_id, approval_id, person)
  constraint approval_votes_tenant_id_approval_id_fkey FOREIGN KEY (tenant_id, approval_id) REFERENCES approvals(tenant_id, approval_id) ON DELETE CASCADE

table approvals
  tenant_id text collate "C" not null
  approval_id uuid not null
  thread_id uuid not null
  run_id uuid not null
  checkpoint_id uuid
  interrupt_id text not null
  node text
  form text not null default 'other'::text
  actions integer not null default 1
  policy jsonb not null default '{}'::jsonb
  deadline_at timestamp with time zone
  reminded_at timestamp with time zone
  escalated_at timestamp with time zone
  status text not null default 'pending'::text
  asked_at timestamp with time zone not null default clock_timestamp()
  decided_at timestamp with time zone
  decided_by text
  decided_run_id uuid
  decision text
  withdrawn_reason text
  constraint approvals_decided CHECK (((status = 'pending'::text) = (decided_at IS NULL)))
  constraint approvals_form_check CHECK ((form = ANY (ARRAY['langchain'::text, 'agent_inbox'::text, 'approve'::text, 'other'::text])))
  constraint approvals_pkey PRIMARY KEY (tenant_id, approval_id)
  constraint approvals_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'decided'::text, 'withdrawn'::text])))
  constraint approvals_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  CREATE INDEX approvals_pending ON perdure.approvals USING btree (tenant_id, asked_at) WHERE (status = 'pending'::text)
  CREATE INDEX approvals_thread ON perdure.approvals USING btree (tenant_id, thread_id, asked_at DESC)
  CREATE UNIQUE INDEX approvals_one_pending ON perdure.approvals USING btree (tenant_id, thread_id, interrupt_id) WHERE (status = 'pending'::text)

table assistant_versions
  tenant_id text collate "C" not null
  assistant_id uuid not null
  version integer not null
  made_at_start boolean not null
  graph_id text collate "C" not null
  name text not null
  description text
  config jsonb not null
  context jsonb not null
  metadata jsonb not null
  created_at timestamp with time zone not null default now()
  constraint assistant_versions_pkey PRIMARY KEY (tenant_id, assistant_id, version)
  constraint assistant_versions_tenant_id_assistant_id_fkey FOREIGN KEY (tenant_id, assistant_id) REFERENCES assistants(tenant_id, assistant_id) ON DELETE CASCADE
  CREATE TRIGGER assistant_versions_stay BEFORE UPDATE ON perdure.assistant_versions FOR EACH ROW EXECUTE FUNCTION refuse_change()

table assistants
  tenant_id text collate "C" not null
  assistant_id uuid not null
  graph_id text collate "C" not null
  name text not null
  description text
  version integer not null default 1
  pin text collate "C" not null default 'latest'::text
  config jsonb not null default '{}'::jsonb
  context jsonb not null default '{}'::jsonb
  metadata jsonb not null default '{}'::jsonb
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  newest_version integer not null default 1
  constraint assistants_pin_check CHECK ((pin ~ '^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$'::text))
  constraint assistants_pkey PRIMARY KEY (tenant_id, assistant_id)
  constraint assistants_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)
  constraint assistants_version_check CHECK (((version >= 1) AND (version <= newest_version)))
  CREATE INDEX assistants_graph ON perdure.assistants USING btree (tenant_id, graph_id)

table breakers
  tenant_id text collate "C" not null
  provider text collate "C" not null
  failures integer not null default 0
  openings integer not null default 0
  open_until timestamp with time zone
  trial_run_id uuid
  trial_until timestamp with time zone
  failed_at timestamp with time zone not null default clock_timestamp()
  constraint breakers_pkey PRIMARY KEY (tenant_id, provider)
  constraint breakers_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table budgets
  tenant_id text collate "C" not null
  scope text not null
  ref_id text collate "C" not null
  max_cost numeric
  max_tokens bigint
  max_steps integer
  max_active_ms bigint
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint budgets_max_active_ms_check CHECK ((max_active_ms >= 0))
  constraint budgets_max_cost_check CHECK ((max_cost >= (0)::numeric))
  constraint budgets_max_steps_check CHECK ((max_steps >= 0))
  constraint budgets_max_tokens_check CHECK ((max_tokens >= 0))
  constraint budgets_pkey PRIMARY KEY (tenant_id, scope, ref_id)
  constraint budgets_scope_check CHECK ((scope = ANY (ARRAY['run'::text, 'thread'::text, 'day'::text])))
  constraint budgets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table channel_accounts with (fillfactor=70)
  tenant_id text collate "C" not null
  channel_account_id uuid not null
  kind text not null
  name text not null
  credentials bytea not null
  settings jsonb not null default '{}'::jsonb
  status text not null default 'open'::text
  paused_code text
  paused_at timestamp with time zone
  blocked_until timestamp with time zone
  troubles integer not null default 0
  per_second double precision
  tokens double precision not null default 0
  tokens_at timestamp with time zone not null default clock_timestamp()
  cursor text
  poll_owner text
  poll_until timestamp with time zone
  receipt_at timestamp with time zone
  version integer not null default 1
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint channel_accounts_kind_check CHECK ((kind ~ '^[a-z][a-z0-9_]{0,31}$'::text))
  constraint channel_accounts_name UNIQUE (tenant_id, name)
  constraint channel_accounts_name_check CHECK (((length(name) >= 1) AND (length(name) <= 80)))
  constraint channel_accounts_paused CHECK (((status = 'paused'::text) = (paused_at IS NOT NULL)))
  constraint channel_accounts_per_second_check CHECK ((per_second > (0)::double precision))
  constraint channel_accounts_pkey PRIMARY KEY (tenant_id, channel_account_id)
  constraint channel_accounts_status_check CHECK ((status = ANY (ARRAY['open'::text, 'paused'::text])))
  constraint channel_accounts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)
  CREATE INDEX channel_accounts_origins ON perdure.channel_accounts USING gin (((settings -> 'allowed_origins'::text))) WHERE (kind = 'web'::text)
  CREATE UNIQUE INDEX channel_accounts_id ON perdure.channel_accounts USING btree (channel_account_id)

table channel_versions
  tenant_id text collate "C" not null
  thread_id uuid not null
  ns text collate "C" not null
  channel text not null
  version text collate "C" not null
  data bytea
  refs bytea[]
  constraint channel_versions_pkey PRIMARY KEY (tenant_id, thread_id, ns, channel, version)

table checkpoint_writes
  tenant_id text collate "C" not null
  thread_id uuid not null
  ns text collate "C" not null
  checkpoint_id uuid not null
  task_id text collate "C" not null
  idx integer not null
  task_path text collate "C" not null default ''::text
  channel text not null
  run_id uuid
  attempt integer
  data bytea not null
  refs bytea[]
  created_at timestamp with time zone not null default now()
  constraint checkpoint_writes_pkey PRIMARY KEY (tenant_id, thread_id, ns, checkpoint_id, task_id, idx)

table checkpoints
  tenant_id text collate "C" not null
  thread_id uuid not null
  ns text collate "C" not null
  checkpoint_id uuid not null
  parent_id uuid
  run_id uuid
  attempt integer
  seq bigint not null generated always as identity
  step integer
  source text
  metadata jsonb not null default '{}'::jsonb
  channels text[]
  versions text[]
  head bytea
  pack_id uuid
  block integer
  written_by uuid[]
  delta_channels text[]
  created_at timestamp with time zone not null default now()
  constraint checkpoints_here_or_moved CHECK (((head IS NOT NULL) OR ((pack_id IS NOT NULL) AND (block IS NOT NULL))))
  constraint checkpoints_pkey PRIMARY KEY (tenant_id, thread_id, ns, checkpoint_id)
  constraint checkpoints_tenant_id_pack_id_fkey FOREIGN KEY (tenant_id, pack_id) REFERENCES packs(tenant_id, pack_id)
  CREATE INDEX checkpoints_newest ON perdure.checkpoints USING btree (tenant_id, thread_id, ns, seq DESC)
  CREATE INDEX checkpoints_pack ON perdure.checkpoints USING btree (tenant_id, pack_id) WHERE (pack_id IS NOT NULL)
  CREATE INDEX checkpoints_run ON perdure.checkpoints USING btree (tenant_id, run_id, seq DESC) WHERE (run_id IS NOT NULL)
  CREATE INDEX checkpoints_unmoved ON perdure.checkpoints USING btree (tenant_id, thread_id) WHERE (head IS NOT NULL)

table claim_cursor with (fillfactor=10)
  priority smallint not null
  tenant_id text collate "C" not null default ''::text
  passed integer not null default 0
  constraint claim_cursor_pkey PRIMARY KEY (priority)

table contact_conversations
  tenant_id text collate "C" not null
  conversation_id uuid not null
  contact_id uuid not null
  position integer not null
  constraint contact_conversations_pkey PRIMARY KEY (tenant_id, conversation_id)
  constraint contact_conversations_tenant_id_contact_id_fkey FOREIGN KEY (tenant_id, contact_id) REFERENCES contacts(tenant_id, contact_id) ON DELETE CASCADE
  constraint contact_conversations_tenant_id_conversation_id_fkey FOREIGN KEY (tenant_id, conversation_id) REFERENCES conversations(tenant_id, conversation_id) ON DELETE CASCADE
  CREATE INDEX contact_conversations_contact ON perdure.contact_conversations USING btree (tenant_id, contact_id, "position")

table contacts
  tenant_id text collate "C" not null
  contact_id uuid not null
  key text collate "C" not null
  attributes jsonb not null default '{}'::jsonb
  time_zone text
  locale text
  opted_in_at timestamp with time zone
  opt_in_source text
  version integer not null default 1
  created_at timestamp with time zone not null default clock_timestamp()
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint contacts_key UNIQUE (tenant_id, key)
  constraint contacts_key_check CHECK (((length(key) >= 1) AND (length(key) <= 200)))
  constraint contacts_opted_in CHECK (((opted_in_at IS NULL) = (opt_in_source IS NULL)))
  constraint contacts_pkey PRIMARY KEY (tenant_id, contact_id)
  constraint contacts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table conversations
  tenant_id text collate "C" not null
  conversation_id uuid not null
  channel_account_id uuid not null
  address jsonb not null
  address_key text collate "C" not null
  thread_id uuid not null
  person jsonb not null default '{}'::jsonb
  time_zone text
  locale text
  last_inbound_at timestamp with time zone
  unreachable_code text
  unreachable_at timestamp with time zone
  last_seq bigint not null default 0
  read_seq bigint not null default 0
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  received_seq bigint not null default 0
  constraint conversations_address UNIQUE (tenant_id, channel_account_id, address_key)
  constraint conversations_pkey PRIMARY KEY (tenant_id, conversation_id)
  constraint conversations_tenant_id_channel_account_id_fkey FOREIGN KEY (tenant_id, channel_account_id) REFERENCES channel_accounts(tenant_id, channel_account_id)
  constraint conversations_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  CREATE INDEX conversations_thread ON perdure.conversations USING btree (tenant_id, thread_id)
  CREATE TRIGGER conversation_reachable AFTER UPDATE OF unreachable_at ON perdure.conversations FOR EACH ROW WHEN (((old.unreachable_at IS NOT NULL) AND (new.unreachable_at IS NULL))) EXECUTE FUNCTION conversation_reachable()

table cron_firings
  tenant_id text collate "C" not null
  cron_id uuid not null
  occurrence_at timestamp with time zone not null
  status text not null
  reason text
  times integer not null default 1
  run_id uuid
  thread_id uuid
  is_open boolean not null
  created_at timestamp with time zone not null default clock_timestamp()
  constraint cron_firings_open CHECK (((status = 'fired'::text) OR (NOT is_open)))
  constraint cron_firings_pkey PRIMARY KEY (tenant_id, cron_id, occurrence_at)
  constraint cron_firings_run CHECK (((status = 'fired'::text) = (run_id IS NOT NULL)))
  constraint cron_firings_status_check CHECK ((status = ANY (ARRAY['fired'::text, 'missed'::text, 'skipped'::text])))
  CREATE INDEX cron_firings_old ON perdure.cron_firings USING btree (created_at) WHERE (NOT is_open)
  CREATE INDEX cron_firings_open ON perdure.cron_firings USING btree (tenant_id) WHERE is_open

table crons
  tenant_id text collate "C" not null
  cron_id uuid not null
  assistant_id uuid not null
  thread_id uuid
  on_run_completed text not null
  schedule text not null
  time_zone text
  end_time timestamp with time zone
  enabled boolean not null
  metadata jsonb not null default '{}'::jsonb
  user_id text
  payload bytea not null
  run bytea not null
  next_at timestamp with time zone
  created_at timestamp with time zone not null default clock_timestamp()
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint crons_next CHECK ((enabled OR (next_at IS NULL)))
  constraint crons_on_run_completed_check CHECK ((on_run_completed = ANY (ARRAY['delete'::text, 'keep'::text])))
  constraint crons_pkey PRIMARY KEY (tenant_id, cron_id)
  constraint crons_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)
  constraint crons_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  CREATE INDEX crons_newest ON perdure.crons USING btree (tenant_id, created_at DESC)
  CREATE INDEX crons_thread ON perdure.crons USING btree (tenant_id, thread_id) WHERE (thread_id IS NOT NULL)

table deliveries with (fillfactor=85)
  tenant_id text collate "C" not null
  delivery_id uuid not null
  seq bigint not null default nextval('delivery_seq'::regclass)
  source_kind text not null
  source_id uuid not null
  part integer not null default 0
  thread_id uuid not null
  run_id uuid
  channel_account_id uuid not null
  conversation_id uuid not null
  kind text not null
  payload bytea not null
  payload_sha256 bytea not null
  on_unknown text not null
  status text not null default 'pending'::text
  head boolean not null default false
  next_at timestamp with time zone not null default clock_timestamp()
  not_after timestamp with time zone
  attempts integer not null default 0
  refusals integer not null default 0
  lease_until timestamp with time zone
  current_token uuid
  unknown_since timestamp with time zone
  reserved_message_id text
  provider_message_id text
  error_code text
  duplicate boolean not null default false
  noted_at timestamp with time zone
  created_at timestamp with time zone not null default clock_timestamp()
  updated_at timestamp with time zone not null default clock_timestamp()
  settled_at timestamp with time zone
  constraint deliveries_head CHECK (((NOT head) OR (status = ANY (ARRAY['pending'::text, 'sending'::text, 'unknown'::text]))))
  constraint deliveries_leased CHECK (((status = 'sending'::text) = (lease_until IS NOT NULL)))
  constraint deliveries_on_unknown_check CHECK ((on_unknown = ANY (ARRAY['hold'::text, 'resend'::text, 'reconcile'::text, 'reserve_edit'::text])))
  constraint deliveries_payload_sha256_check CHECK ((length(payload_sha256) = 32))
  constraint deliveries_pkey PRIMARY KEY (tenant_id, delivery_id)
  constraint deliveries_source UNIQUE (tenant_id, source_kind, source_id, part)
  constraint deliveries_source_kind_check CHECK ((source_kind = ANY (ARRAY['reply'::text, 'question'::text, 'followup'::text, 'outreach'::text, 'doorbell'::text, 'notice'::text, 'webhook'::text])))
  constraint deliveries_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'sending'::text, 'sent'::text, 'delivered'::text, 'read'::text, 'unknown'::text, 'failed'::text, 'parked'::text, 'suppressed'::text, 'expired'::text])))
  constraint deliveries_tenant_id_conversation_id_fkey FOREIGN KEY (tenant_id, conversation_id) REFERENCES conversations(tenant_id, conversation_id) ON DELETE CASCADE
  CREATE INDEX deliveries_message ON perdure.deliveries USING btree (tenant_id, channel_account_id, provider_message_id) WHERE (provider_message_id IS NOT NULL)
  CREATE INDEX deliveries_newest ON perdure.deliveries USING btree (tenant_id, seq DESC)
  CREATE INDEX deliveries_questions ON perdure.deliveries USING btree (tenant_id, conversation_id, seq) WHERE (source_kind = 'question'::text)
  CREATE INDEX deliveries_ready ON perdure.deliveries USING btree (tenant_id, channel_account_id, next_at, seq) WHERE ((status = 'pending'::text) AND head)
  CREATE INDEX deliveries_sending ON perdure.deliveries USING btree (lease_until) WHERE (status = 'sending'::text)
  CREATE INDEX deliveries_thread ON perdure.deliveries USING btree (tenant_id, thread_id, seq DESC)
  CREATE INDEX deliveries_unheard ON perdure.deliveries USING btree (tenant_id, thread_id) WHERE ((noted_at IS NULL) AND (status = ANY (ARRAY['unknown'::text, 'failed'::text, 'expired'::text])))
  CREATE INDEX deliveries_unsure ON perdure.deliveries USING btree (next_at) WHERE ((status = 'unknown'::text) AND head)
  CREATE INDEX deliveries_waiting ON perdure.deliveries USING btree (tenant_id, conversation_id, seq) WHERE (status = ANY (ARRAY['pending'::text, 'parked'::text]))
  CREATE UNIQUE INDEX deliveries_one_head ON perdure.deliveries USING btree (tenant_id, conversation_id) WHERE head
  CREATE TRIGGER send_to_web AFTER INSERT ON perdure.deliveries FOR EACH ROW WHEN ((new.source_kind <> 'outreach'::text)) EXECUTE FUNCTION send_to_web()
  CREATE TRIGGER sent_to_inbox AFTER UPDATE OF status ON perdure.deliveries FOR EACH ROW WHEN (((new.status = 'sent'::text) AND (old.status <> 'sent'::text))) EXECUTE FUNCTION sent_to_inbox()

table delivery_attempts
  tenant_id text collate "C" not null
  token uuid not null
  delivery_id uuid not null
  worker text not null
  claimed_at timestamp with time zone not null default clock_timestamp()
  wire_started_at timestamp with time zone
  outcome text
  provider_message_id text
  error_code text
  settled_at timestamp with time zone
  constraint delivery_attempts_pkey PRIMARY KEY (tenant_id, token)
  constraint delivery_attempts_tenant_id_delivery_id_fkey FOREIGN KEY (tenant_id, delivery_id) REFERENCES deliveries(tenant_id, delivery_id) ON DELETE CASCADE
  CREATE INDEX delivery_attempts_delivery ON perdure.delivery_attempts USING btree (tenant_id, delivery_id, claimed_at)

table delivery_receipts
  tenant_id text collate "C" not null
  channel_account_id uuid not null
  provider_message_id text collate "C" not null
  status text not null
  token uuid
  error_code text
  at timestamp with time zone not null default clock_timestamp()
  constraint delivery_receipts_pkey PRIMARY KEY (tenant_id, channel_account_id, provider_message_id, status)
  constraint delivery_receipts_status_check CHECK ((status = ANY (ARRAY['sent'::text, 'delivered'::text, 'read'::text, 'failed'::text])))
  CREATE INDEX delivery_receipts_at ON perdure.delivery_receipts USING btree (at)

table effects
  tenant_id text collate "C" not null
  key text collate "C" not null
  thread_id uuid not null
  run_id uuid not null
  attempt integer not null
  call_id uuid not null
  tool text not null
  args_hash bytea not null
  kind text not null
  policy text not null
  status text not null
  attempts integer not null default 0
  epoch integer not null default 0
  task text not null
  result bytea
  error_code text
  question jsonb
  resolution jsonb
  compensated_at timestamp with time zone
  created_at timestamp with time zone not null default clock_timestamp()
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint effects_args_hash_check CHECK ((length(args_hash) = 32))
  constraint effects_key_check CHECK ((key ~ '^(comp_)?[0-9a-f]{64}$'::text))
  constraint effects_kind_check CHECK ((kind = ANY (ARRAY['none'::text, 'local'::text, 'remote'::text, 'undeclared'::text])))
  constraint effects_pkey PRIMARY KEY (tenant_id, key)
  constraint effects_policy_check CHECK ((policy = ANY (ARRAY['ask'::text, 'lookup'::text, 'retry'::text, 'fail'::text])))
  constraint effects_status_check CHECK ((status = ANY (ARRAY['asked'::text, 'started'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text])))
  constraint effects_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  CREATE INDEX effects_run ON perdure.effects USING btree (tenant_id, run_id)
  CREATE INDEX effects_thread ON perdure.effects USING btree (tenant_id, thread_id, created_at)

table events
  tenant_id text collate "C" not null
  run_id uuid not null
  seq bigint not null generated always as identity
  thread_id uuid not null
  attempt integer not null
  type text not null
  payload jsonb not null default '{}'::jsonb
  created_at timestamp with time zone not null default clock_timestamp()
  constraint events_pkey PRIMARY KEY (tenant_id, run_id, seq)
  constraint events_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES runs(tenant_id, run_id) ON DELETE CASCADE

table followups
  tenant_id text collate "C" not null
  followup_id uuid not null
  thread_id uuid
  origin_run_id uuid
  assistant_id uuid
  graph_id text collate "C"
  created_by text not null
  mode text not null
  content bytea not null
  conversation_id uuid
  fire_at timestamp with time zone not null
  local_time text
  time_zone text
  not_after timestamp with time zone
  cancel_on_inbound boolean not null default false
  status text not null default 'pending'::text
  reason text
  run_id uuid
  tell_run_id uuid
  depth integer not null default 0
  chain_id uuid not null
  dedupe_sha256 bytea not null
  created_at timestamp with time zone not null default clock_timestamp()
  updated_at timestamp with time zone not null default clock_timestamp()
  schedule_id uuid
  recipient uuid
  occurrence text collate "C"
  occurrence_at timestamp with time zone
  fired_at timestamp with time zone
  constraint followups_created_by_check CHECK ((created_by = ANY (ARRAY['agent'::text, 'user'::text, 'tenant'::text])))
  constraint followups_dedupe_sha256_check CHECK ((length(dedupe_sha256) = 32))
  constraint followups_mode_check CHECK ((mode = ANY (ARRAY['remind'::text, 'work'::text])))
  constraint followups_occurrence CHECK ((num_nonnulls(schedule_id, recipient, occurrence, occurrence_at) = ANY (ARRAY[0, 4])))
  constraint followups_pkey PRIMARY KEY (tenant_id, followup_id)
  constraint followups_place CHECK (((status = 'skipped'::text) OR ((thread_id IS NOT NULL) AND (assistant_id IS NOT NULL) AND (graph_id IS NOT NULL))))
  constraint followups_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'parked'::text, 'running'::text, 'waiting_approval'::text, 'produced'::text, 'cancelled'::text, 'expired'::text, 'skipped'::text, 'dead'::text])))
  constraint followups_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  CREATE INDEX followups_dedupe ON perdure.followups USING btree (tenant_id, dedupe_sha256) WHERE (status = ANY (ARRAY['pending'::text, 'parked'::text]))
  CREATE INDEX followups_newest ON perdure.followups USING btree (tenant_id, created_at DESC)
  CREATE INDEX followups_of_schedule ON perdure.followups USING btree (tenant_id, schedule_id, occurrence_at DESC) WHERE (schedule_id IS NOT NULL)
  CREATE INDEX followups_open ON perdure.followups USING btree (tenant_id, thread_id) WHERE ((schedule_id IS NULL) AND (status = ANY (ARRAY['pending'::text, 'parked'::text, 'running'::text, 'waiting_approval'::text])))
  CREATE INDEX followups_outreach_open ON perdure.followups USING btree (tenant_id, schedule_id, recipient) WHERE ((schedule_id IS NOT NULL) AND (status = ANY (ARRAY['pending'::text, 'running'::text, 'waiting_approval'::text])))
  CREATE INDEX followups_outreach_work ON perdure.followups USING btree (tenant_id) WHERE ((schedule_id IS NOT NULL) AND (status = 'running'::text) AND (mode = 'work'::text))
  CREATE INDEX followups_parked ON perdure.followups USING btree (tenant_id, conversation_id) WHERE (status = 'parked'::text)
  CREATE INDEX followups_recent ON perdure.followups USING btree (tenant_id, recipient, fired_at) WHERE (fired_at IS NOT NULL)
  CREATE INDEX followups_thread ON perdure.followups USING btree (tenant_id, thread_id, created_at DESC)
  CREATE UNIQUE INDEX followups_once ON perdure.followups USING btree (tenant_id, schedule_id, recipient, occurrence) WHERE (schedule_id IS NOT NULL)
  CREATE TRIGGER followup_failed AFTER UPDATE OF status ON perdure.followups FOR EACH ROW WHEN (((new.status = ANY (ARRAY['dead'::text, 'expired'::text])) AND (old.status <> new.status))) EXECUTE FUNCTION followup_failed()

table graph_limits
  graph_id text collate "C" not null
  max_running integer not null
  constraint graph_limits_max_running_check CHECK ((max_running >= 0))
  constraint graph_limits_pkey PRIMARY KEY (graph_id)

table idempotency_keys
  tenant_id text collate "C" not null
  key_sha256 bytea not null
  request_sha256 bytea not null
  made_id uuid not null
  created_at timestamp with time zone not null default clock_timestamp()
  constraint idempotency_keys_key_sha256_check CHECK ((length(key_sha256) = 32))
  constraint idempotency_keys_pkey PRIMARY KEY (tenant_id, key_sha256)
  constraint idempotency_keys_request_sha256_check CHECK ((length(request_sha256) = 32))
  CREATE INDEX idempotency_keys_age ON perdure.idempotency_keys USING btree (created_at)

table inbound_events
  tenant_id text collate "C" not null
  channel_account_id uuid not null
  external_id text collate "C" not null
  kind text not null
  run_id uuid
  place bigint
  received_at timestamp with time zone not null default clock_timestamp()
  constraint inbound_events_pkey PRIMARY KEY (tenant_id, channel_account_id, external_id)
  CREATE INDEX inbound_events_received ON perdure.inbound_events USING btree (received_at)

table inbox_items
  tenant_id text collate "C" not null
  conversation_id uuid not null
  seq bigint not null
  delivery_id uuid
  client_message_id text collate "C"
  payload bytea
  created_at timestamp with time zone not null default clock_timestamp()
  constraint inbox_items_author CHECK ((((delivery_id IS NULL) = (client_message_id IS NOT NULL)) AND ((client_message_id IS NULL) = (payload IS NULL))))
  constraint inbox_items_pkey PRIMARY KEY (tenant_id, conversation_id, seq)
  constraint inbox_items_tenant_id_conversation_id_fkey FOREIGN KEY (tenant_id, conversation_id) REFERENCES conversations(tenant_id, conversation_id) ON DELETE CASCADE
  constraint inbox_items_tenant_id_delivery_id_fkey FOREIGN KEY (tenant_id, delivery_id) REFERENCES deliveries(tenant_id, delivery_id) ON DELETE CASCADE
  CREATE UNIQUE INDEX inbox_items_client_message ON perdure.inbox_items USING btree (tenant_id, conversation_id, client_message_id) WHERE (client_message_id IS NOT NULL)
  CREATE UNIQUE INDEX inbox_items_delivery ON perdure.inbox_items USING btree (tenant_id, delivery_id) WHERE (delivery_id IS NOT NULL)

table migrations
  version integer not null
  name text not null
  breaking boolean not null
  applied_at timestamp with time zone not null default now()
  constraint migrations_pkey PRIMARY KEY (version)

table model_calls
  tenant_id text collate "C" not null
  run_id uuid not null
  call_id uuid not null
  thread_id uuid
  attempt integer not null
  model text
  status text not null default 'reserved'::text
  tokens bigint not null
  cost numeric not null
  input_tokens bigint
  output_tokens bigint
  priced boolean not null
  day date not null default ((clock_timestamp() AT TIME ZONE 'utc'::text))::date
  created_at timestamp with time zone not null default clock_timestamp()
  settled_at timestamp with time zone
  constraint model_calls_cost_check CHECK ((cost >= (0)::numeric))
  constraint model_calls_pkey PRIMARY KEY (tenant_id, run_id, call_id)
  constraint model_calls_status_check CHECK ((status = ANY (ARRAY['reserved'::text, 'settled'::text, 'released'::text])))
  constraint model_calls_tokens_check CHECK ((tokens >= 0))
  CREATE INDEX model_calls_day ON perdure.model_calls USING btree (tenant_id, day)
  CREATE INDEX model_calls_gone ON perdure.model_calls USING btree (day) WHERE (thread_id IS NULL)
  CREATE INDEX model_calls_thread ON perdure.model_calls USING btree (tenant_id, thread_id)

table packs
  tenant_id text collate "C" not null
  pack_id uuid not null
  thread_id uuid not null
  kind text not null
  status text not null default 'pending'::text
  delete_after timestamp with time zone
  key text not null
  bytes bigint
  body_kind smallint
  entries integer
  block_offsets bigint[] not null default '{}'::bigint[]
  block_hashes bytea[] not null default '{}'::bytea[]
  bodies bytea[] not null default '{}'::bytea[]
  body_blocks integer[] not null default '{}'::integer[]
  created_at timestamp with time zone not null default now()
  constraint packs_body_kind_check CHECK ((body_kind = ANY (ARRAY[0, 1, 2])))
  constraint packs_check CHECK (starts_with(key, (((tenant_id || '/'::text) || (thread_id)::text) || '/'::text)))
  constraint packs_check1 CHECK ((cardinality(body_blocks) = cardinality(bodies)))
  constraint packs_kind_check CHECK ((kind = ANY (ARRAY['pack'::text, 'object'::text, 'manifest'::text])))
  constraint packs_pkey PRIMARY KEY (tenant_id, pack_id)
  constraint packs_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'stored'::text, 'doomed'::text])))
  CREATE INDEX packs_not_stored ON perdure.packs USING btree (created_at) WHERE (status <> 'stored'::text)
  CREATE INDEX packs_thread ON perdure.packs USING btree (tenant_id, thread_id)

table prices
  tenant_id text collate "C" not null
  model text collate "C" not null
  input_cost numeric not null
  output_cost numeric not null
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint prices_input_cost_check CHECK ((input_cost >= (0)::numeric))
  constraint prices_output_cost_check CHECK ((output_cost >= (0)::numeric))
  constraint prices_pkey PRIMARY KEY (tenant_id, model)
  constraint prices_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table runs with (fillfactor=85, autovacuum_vacuum_scale_factor=0.02)
  tenant_id text collate "C" not null
  run_id uuid not null
  thread_id uuid not null
  assistant_id uuid not null
  graph_id text collate "C" not null
  kind text not null default 'run'::text
  status text not null default 'pending'::text
  priority smallint not null default 0
  resumes boolean not null default false
  seq bigint not null default nextval('run_seq'::regclass)
  head boolean not null
  attempt integer not null default 0
  crashes integer not null default 0
  failures integer not null default 0
  progress_attempt integer not null default 0
  entered_attempt integer not null default 0
  commit_no bigint not null default 0
  begun boolean not null default false
  lease_owner text
  lease_expires_at timestamp with time zone
  available_at timestamp with time zone
  merge_until timestamp with time zone
  merged integer not null default 0
  waits_for text
  provider text collate "C"
  outage_since timestamp with time zone
  cheaper boolean not null default false
  resolved text
  resolved_by text
  resolved_at timestamp with time zone
  resolved_run_id uuid
  multitask_strategy text not null default 'enqueue'::text
  agent_version text
  pin text collate "C" not null default ''::text
  stays boolean not null default false
  metadata jsonb not null default '{}'::jsonb
  request bytea
  content_pack_id uuid
  content_block integer
  content_moved_at timestamp with time zone
  manifest_pack_id uuid
  manifest_previous_id uuid
  manifest_seq bigint
  manifest_due_seq bigint
  content_expired_at timestamp with time zone
  error_code text
  error_type text
  error_preview text
  error bytea
  cancel_reason text
  result_checkpoint_id uuid
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  started_at timestamp with time zone
  finished_at timestamp with time zone
  conversation_id uuid
  followup_id uuid
  followup_part text
  webhook text
  assistant_version integer
  keeps_last boolean not null default false
  constraint runs_error_preview_check CHECK ((length(error_preview) <= 200))
  constraint runs_finished_when_done CHECK (((status = ANY (ARRAY['pending'::text, 'running'::text])) = (finished_at IS NULL)))
  constraint runs_followup_part_check CHECK ((followup_part = ANY (ARRAY['work'::text, 'tell'::text])))
  constraint runs_head_unfinished CHECK (((NOT head) OR (status = ANY (ARRAY['pending'::text, 'running'::text]))))
  constraint runs_kind_check CHECK ((kind = ANY (ARRAY['run'::text, 'edit'::text])))
  constraint runs_lease_when_running CHECK ((((status = 'running'::text) = (lease_owner IS NOT NULL)) AND ((status = 'running'::text) = (lease_expires_at IS NOT NULL))))
  constraint runs_pkey PRIMARY KEY (tenant_id, run_id)
  constraint runs_priority_check CHECK (((priority >= 0) AND (priority <= 3)))
  constraint runs_resolved_check CHECK ((resolved = ANY (ARRAY['retried'::text, 'closed'::text])))
  constraint runs_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'running'::text, 'interrupted'::text, 'success'::text, 'error'::text, 'timeout'::text])))
  constraint runs_tenant_id_thread_id_fkey FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id) ON DELETE CASCADE
  constraint runs_waits_for_check CHECK ((waits_for = ANY (ARRAY['approval'::text, 'timer'::text, 'person'::text, 'provider'::text])))
  CREATE INDEX runs_attention ON perdure.runs USING btree (tenant_id, finished_at DESC) WHERE (waits_for = 'person'::text)
  CREATE INDEX runs_followup ON perdure.runs USING btree (tenant_id, followup_id) WHERE (followup_id IS NOT NULL)
  CREATE INDEX runs_manifest_due ON perdure.runs USING btree (tenant_id, thread_id, seq) WHERE ((manifest_due_seq IS NOT NULL) AND (manifest_due_seq IS DISTINCT FROM manifest_seq))
  CREATE INDEX runs_not_expired ON perdure.runs USING btree (tenant_id, finished_at) WHERE ((finished_at IS NOT NULL) AND (content_expired_at IS NULL))
  CREATE INDEX runs_of_thread ON perdure.runs USING btree (tenant_id, thread_id, seq DESC)
  CREATE INDEX runs_out ON perdure.runs USING btree (tenant_id, provider) WHERE (waits_for = 'provider'::text)
  CREATE INDEX runs_ready ON perdure.runs USING btree (priority, graph_id, pin, tenant_id, seq) WHERE ((status = 'pending'::text) AND head AND (available_at IS NULL))
  CREATE INDEX runs_running ON perdure.runs USING btree (graph_id, tenant_id) WHERE (status = 'running'::text)
  CREATE INDEX runs_waiting ON perdure.runs USING btree (tenant_id, thread_id, seq) WHERE (status = 'pending'::text)
  CREATE UNIQUE INDEX runs_one_head ON perdure.runs USING btree (tenant_id, thread_id) WHERE head
  CREATE UNIQUE INDEX runs_one_running ON perdure.runs USING btree (tenant_id, thread_id) WHERE (status = 'running'::text)
  CREATE TRIGGER followup_run_ended AFTER UPDATE OF status ON perdure.runs FOR EACH ROW WHEN (((new.followup_id IS NOT NULL) AND (new.status <> old.status) AND (new.status <> ALL (ARRAY['pending'::text, 'running'::text])))) EXECUTE FUNCTION followup_run_ended()
  CREATE TRIGGER followup_run_gone AFTER DELETE ON perdure.runs FOR EACH ROW WHEN (((old.followup_id IS NOT NULL) AND (old.status = ANY (ARRAY['pending'::text, 'running'::text, 'interrupted'::text])))) EXECUTE FUNCTION followup_run_ended()
  CREATE TRIGGER run_prune_due AFTER UPDATE OF status ON perdure.runs FOR EACH ROW WHEN ((new.keeps_last AND (new.status <> old.status) AND (new.status <> ALL (ARRAY['pending'::text, 'running'::text])))) EXECUTE FUNCTION run_prune_due()
  CREATE TRIGGER run_webhook_due AFTER UPDATE OF status ON perdure.runs FOR EACH ROW WHEN (((new.webhook IS NOT NULL) AND (new.status <> old.status) AND (new.status <> ALL (ARRAY['pending'::text, 'running'::text])))) EXECUTE FUNCTION run_webhook_due()

table schedule_firings
  tenant_id text collate "C" not null
  schedule_id uuid not null
  occurrence_at timestamp with time zone not null
  cause text not null
  status text not null
  reason text
  times integer not null default 1
  overlap text not null
  done_to uuid
  made integer not null default 0
  skipped integer not null default 0
  created_at timestamp with time zone not null default clock_timestamp()
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint schedule_firings_cause_check CHECK ((cause = ANY (ARRAY['due'::text, 'now'::text, 'backfill'::text])))
  constraint schedule_firings_overlap_check CHECK ((overlap = ANY (ARRAY['skip'::text, 'queue'::text])))
  constraint schedule_firings_pkey PRIMARY KEY (tenant_id, schedule_id, occurrence_at)
  constraint schedule_firings_status_check CHECK ((status = ANY (ARRAY['firing'::text, 'fired'::text, 'missed'::text, 'skipped'::text])))
  constraint schedule_firings_tenant_id_schedule_id_fkey FOREIGN KEY (tenant_id, schedule_id) REFERENCES schedules(tenant_id, schedule_id) ON DELETE CASCADE
  CREATE INDEX schedule_firings_old ON perdure.schedule_firings USING btree (updated_at) WHERE (status <> 'firing'::text)
  CREATE INDEX schedule_firings_open ON perdure.schedule_firings USING btree (tenant_id, schedule_id, occurrence_at) WHERE (status = 'firing'::text)

table schedules
  tenant_id text collate "C" not null
  schedule_id uuid not null
  name text not null
  kind text not null
  cron text
  time_zone text not null
  relative jsonb
  audience jsonb not null
  mode text not null
  content bytea not null
  purpose text not null
  quiet_hours jsonb
  catchup text not null
  catchup_window_ms bigint not null
  overlap text not null
  jitter_ms bigint not null
  expires_ms bigint
  starts_at timestamp with time zone
  ends_at timestamp with time zone
  max_occurrences integer
  occurrences integer not null default 0
  status text not null default 'active'::text
  next_at timestamp with time zone
  version integer not null default 1
  created_at timestamp with time zone not null default clock_timestamp()
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint schedules_catchup_check CHECK ((catchup = ANY (ARRAY['latest'::text, 'skip'::text, 'all'::text])))
  constraint schedules_catchup_window_ms_check CHECK ((catchup_window_ms >= 0))
  constraint schedules_expires_ms_check CHECK ((expires_ms > 0))
  constraint schedules_jitter_ms_check CHECK ((jitter_ms >= 0))
  constraint schedules_kind CHECK ((((kind = 'once'::text) = (cron IS NULL)) AND ((kind = 'relative'::text) = (relative IS NOT NULL))))
  constraint schedules_kind_check CHECK ((kind = ANY (ARRAY['cron'::text, 'once'::text, 'relative'::text])))
  constraint schedules_max_occurrences_check CHECK ((max_occurrences > 0))
  constraint schedules_mode_check CHECK ((mode = ANY (ARRAY['remind'::text, 'work'::text])))
  constraint schedules_name UNIQUE (tenant_id, name)
  constraint schedules_name_check CHECK (((length(name) >= 1) AND (length(name) <= 80)))
  constraint schedules_next CHECK (((status = 'active'::text) OR (next_at IS NULL)))
  constraint schedules_overlap_check CHECK ((overlap = ANY (ARRAY['skip'::text, 'queue'::text])))
  constraint schedules_pkey PRIMARY KEY (tenant_id, schedule_id)
  constraint schedules_purpose_check CHECK ((purpose = ANY (ARRAY['utility'::text, 'marketing'::text])))
  constraint schedules_status_check CHECK ((status = ANY (ARRAY['active'::text, 'paused'::text, 'ended'::text])))
  constraint schedules_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)

table staged_bodies
  tenant_id text collate "C" not null
  thread_id uuid not null
  hash bytea not null
  kind smallint not null
  refs bytea[]
  data bytea not null
  created_at timestamp with time zone not null default now()
  constraint staged_bodies_hash_check CHECK ((length(hash) = 32))
  constraint staged_bodies_kind_check CHECK ((kind = ANY (ARRAY[0, 1, 2])))
  constraint staged_bodies_pkey PRIMARY KEY (tenant_id, thread_id, hash)

table store_indexes
  index_id text not null
  started_at timestamp with time zone not null default clock_timestamp()
  due_at timestamp with time zone not null default clock_timestamp()
  constraint store_indexes_pkey PRIMARY KEY (index_id)

table store_vectors
  tenant_id text collate "C" not null
  namespace_path text collate "C" not null
  key text not null
  index_id text not null
  value_sha256 bytea not null
  paths text[]
  vectors real[] not null
  constraint store_vectors_item FOREIGN KEY (namespace_path, key) REFERENCES perdure_store.store(namespace_path, key) ON DELETE CASCADE
  constraint store_vectors_pkey PRIMARY KEY (namespace_path, key)

table stream_chunks
  tenant_id text collate "C" not null
  run_id uuid not null
  first_id bigint not null
  last_id bigint not null
  lines text not null
  created_at timestamp with time zone not null default now()
  constraint stream_chunks_check CHECK ((last_id >= first_id))
  constraint stream_chunks_pkey PRIMARY KEY (tenant_id, run_id, first_id)
  constraint stream_chunks_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES runs(tenant_id, run_id) ON DELETE CASCADE

table suppressions
  tenant_id text collate "C" not null
  suppression_id uuid not null
  contact_key text collate "C"
  channel_account_id uuid
  address_key text collate "C"
  scope text not null
  cause text not null
  created_at timestamp with time zone not null default clock_timestamp()
  constraint suppressions_address CHECK (((channel_account_id IS NULL) = (address_key IS NULL)))
  constraint suppressions_cause_check CHECK ((cause = ANY (ARRAY['stop'::text, 'blocked'::text, 'opted_out'::text, 'api'::text])))
  constraint suppressions_of_one CHECK ((num_nonnulls(contact_key, address_key) = 1))
  constraint suppressions_pkey PRIMARY KEY (tenant_id, suppression_id)
  constraint suppressions_scope_check CHECK ((scope = ANY (ARRAY['all'::text, 'marketing'::text])))
  constraint suppressions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)
  CREATE UNIQUE INDEX suppressions_at ON perdure.suppressions USING btree (tenant_id, channel_account_id, address_key, scope, cause) WHERE (address_key IS NOT NULL)
  CREATE UNIQUE INDEX suppressions_contact ON perdure.suppressions USING btree (tenant_id, contact_key, scope, cause) WHERE (contact_key IS NOT NULL)

table tenants
  tenant_id text collate "C" not null
  max_running integer
  best_priority smallint not null default 0
  created_at timestamp with time zone not null default now()
  constraint tenants_best_priority_check CHECK (((best_priority >= 0) AND (best_priority <= 3)))
  constraint tenants_max_running_check CHECK ((max_running >= 0))
  constraint tenants_pkey PRIMARY KEY (tenant_id)
  constraint tenants_tenant_id_check CHECK ((tenant_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'::text))

table threads
  tenant_id text collate "C" not null
  thread_id uuid not null
  status text not null default 'idle'::text
  ephemeral boolean not null default false
  metadata jsonb not null default '{}'::jsonb
  config jsonb not null default '{}'::jsonb
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  state_updated_at timestamp with time zone
  ttl_minutes double precision
  ttl_strategy text
  constraint threads_pkey PRIMARY KEY (tenant_id, thread_id)
  constraint threads_status_check CHECK ((status = ANY (ARRAY['idle'::text, 'busy'::text, 'interrupted'::text, 'error'::text])))
  constraint threads_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id)
  constraint threads_ttl CHECK (((ttl_minutes IS NULL) = (ttl_strategy IS NULL)))
  constraint threads_ttl_minutes_check CHECK ((ttl_minutes > (0)::double precision))
  constraint threads_ttl_strategy_check CHECK ((ttl_strategy = ANY (ARRAY['delete'::text, 'keep_latest'::text])))
  CREATE INDEX threads_created ON perdure.threads USING btree (tenant_id, created_at DESC) WHERE (NOT ephemeral)
  CREATE INDEX threads_metadata ON perdure.threads USING gin (metadata jsonb_path_ops)
  CREATE TRIGGER thread_ttl_due AFTER UPDATE ON perdure.threads FOR EACH ROW WHEN (((new.ttl_minutes IS NOT NULL) AND (NOT new.ephemeral) AND ((new.updated_at <> old.updated_at) OR (new.ttl_minutes IS DISTINCT FROM old.ttl_minutes) OR (new.ttl_strategy IS DISTINCT FROM old.ttl_strategy) OR old.ephemeral))) EXECUTE FUNCTION thread_ttl_due()
  CREATE TRIGGER thread_ttl_due_new AFTER INSERT ON perdure.threads FOR EACH ROW WHEN (((new.ttl_minutes IS NOT NULL) AND (NOT new.ephemeral))) EXECUTE FUNCTION thread_ttl_due()

table timers
  tenant_id text collate "C" not null
  timer_id uuid not null
  kind text not null
  ref_id uuid not null
  status text not null default 'due'::text
  due_at timestamp with time zone not null
  attempts integer not null default 0
  last_error text
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint timers_pkey PRIMARY KEY (tenant_id, timer_id)
  constraint timers_status_check CHECK ((status = ANY (ARRAY['due'::text, 'fired'::text, 'cancelled'::text])))
  CREATE INDEX timers_due ON perdure.timers USING btree (kind, due_at, timer_id) WHERE (status = 'due'::text)
  CREATE UNIQUE INDEX timers_one_due ON perdure.timers USING btree (tenant_id, kind, ref_id) WHERE (status = 'due'::text)

table tombstones
  tenant_id text collate "C" not null
  thread_id uuid not null
  deleted_at timestamp with time zone not null default now()
  constraint tombstones_pkey PRIMARY KEY (tenant_id, thread_id)

sequence delivery_seq

sequence run_seq

CREATE OR REPLACE FUNCTION perdure.claim_deliveries(slots integer, worker text, lease_ms double precision)
 RETURNS TABLE(o_tenant_id text, o_delivery_id uuid, o_channel_account_id uuid, o_conversation_id uuid, o_thread_id uuid, o_run_id uuid, o_token uuid, o_kind text, o_payload bytea, o_attempts integer, o_refusals integer, o_source_kind text, o_part integer, o_on_unknown text, o_reserved_message_id text)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(7264861091);
  return query
  with
  account as materialized (
    -- One that was out of order is tried with one message.
    select a.tenant_id, a.channel_account_id, a.per_second, a.troubles,
      case when a.troubles >= 5 then 1
        when a.per_second is null then slots
        else least(greatest(a.per_second, 1),
          a.tokens + a.per_second * extract(epoch from clock_timestamp() - a.tokens_at)) end as tokens
    from queued_accounts() w
    join channel_accounts a using (tenant_id, channel_account_id)
    where a.status = 'open' and (a.blocked_until is null or a.blocked_until <= clock_timestamp())
  ),
  candidate as materialized (
    select a.tenant_id, d.delivery_id, d.next_at, d.seq,
      row_number() over (partition by a.tenant_id, a.channel_account_id order by d.next_at, d.seq) as turn
    from account a
    cross join lateral (
      select d.delivery_id, d.next_at, d.seq
      from deliveries d
      where d.status = 'pending' and d.head and d.tenant_id = a.tenant_id
        and d.channel_account_id = a.channel_account_id and d.next_at <= clock_timestamp()
      order by d.next_at, d.seq
      limit least(slots, floor(a.tokens)::int)
    ) d
  ),
  locked as materialized (
    select d.tenant_id, d.delivery_id
    from deliveries d
    where (d.tenant_id, d.delivery_id) in (
        select tenant_id, delivery_id from candidate order by turn, next_at, seq limit slots)
      and d.status = 'pending' and d.head
    order by d.delivery_id
    for no key update skip locked
  ),
  claimed as (
    update deliveries d
    set status = 'sending', lease_until = clock_timestamp() + lease_ms * interval '1 ms',
      current_token = gen_random_uuid(), updated_at = clock_timestamp()
    from locked
    where d.tenant_id = locked.tenant_id and d.delivery_id = locked.delivery_id
    returning d.*
  ),
  tried as (
    insert into delivery_attempts (tenant_id, token, delivery_id, worker)
    select tenant_id, current_token, delivery_id, worker from claimed
  ),
  spent as (
    update channel_accounts a
    set tokens = x.tokens - c.n, tokens_at = clock_timestamp(),
      blocked_until = case when x.troubles >= 5 then clock_timestamp() + lease_ms * interval '1 ms' else a.blocked_until end
    from account x
    join (select tenant_id, channel_account_id, count(*)::int as n from claimed group by 1, 2) c
      using (tenant_id, channel_account_id)
    where a.tenant_id = x.tenant_id and a.channel_account_id = x.channel_account_id
      and (x.per_second is not null or x.troubles >= 5)
  )
  select c.tenant_id, c.delivery_id, c.channel_account_id, c.conversation_id, c.thread_id, c.run_id, c.current_token, c.kind,
    c.payload, c.attempts, c.refusals, c.source_kind, c.part, c.on_unknown, c.reserved_message_id
  from claimed c;
end
$function$


CREATE OR REPLACE FUNCTION perdure.claim_runs(slots integer, owner text, lease_ms bigint, graphs text[], versions text[], graph_max integer[], tenant_max integer)
 RETURNS TABLE(o_tenant_id text, o_run_id uuid, o_thread_id uuid, o_assistant_id uuid, o_graph_id text, o_attempt integer, o_priority smallint, o_begun boolean, o_crashes integer, o_metadata jsonb, o_request bytea, o_fresh boolean, o_provider text, o_cheaper boolean, o_budgeted boolean, o_conversation_id uuid, o_followup_id uuid, o_followup_part text)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(7264861090);
  return query
  with recursive
  busy as materialized (
    select graph_id, tenant_id, count(*)::int as n from runs where status = 'running' group by 1, 2
  ),
  tenant_busy as materialized (
    select tenant_id, sum(n)::int as n from busy group by 1
  ),
  tenant_full as materialized (
    select b.tenant_id
    from tenant_busy b
    join tenants t using (tenant_id)
    where b.n >= coalesce(t.max_running, tenant_max, 1000000)
  ),
  graph_free as materialized (
    select g.graph_id, g.version, coalesce(l.max_running, g.configured, 1000000) - coalesce(b.n, 0) as free
    from unnest(graphs, graph_max, versions) g(graph_id, configured, version)
    left join graph_limits l using (graph_id)
    left join (select graph_id, sum(n)::int as n from busy group by 1) b using (graph_id)
    where coalesce(l.max_running, g.configured, 1000000) > coalesce(b.n, 0)
  ),
  -- Loose index scan: per priority, graph with room and pin, from tenant to tenant, starting after the cursor, once round.
  walk(priority, graph_id, pin, start, wrapped, tenant_id, ok, got) as (
    select c.priority, f.graph_id, p.pin, c.tenant_id, false, c.tenant_id, false, 0
    from claim_cursor c, graph_free f, unnest(array['', f.version]) p(pin)
    union all
    select w.priority, w.graph_id, w.pin, w.start, nx.wrapped, nx.tenant_id, fr.ok, w.got + fr.ok::int
    from walk w
    cross join lateral (
      (select r.tenant_id, w.wrapped as wrapped
        from runs r
        where r.status = 'pending' and r.head and r.available_at is null
          and r.priority = w.priority and r.graph_id = w.graph_id and r.pin = w.pin and r.tenant_id > w.tenant_id
        order by r.tenant_id
        limit 1)
      union all
      (select r.tenant_id, true
        from runs r
        where not w.wrapped and r.status = 'pending' and r.head and r.available_at is null
          and r.priority = w.priority and r.graph_id = w.graph_id and r.pin = w.pin and r.tenant_id > ''
        order by r.tenant_id
        limit 1)
      limit 1
    ) nx
    -- offset 0 keeps this a hashed subplan
    cross join lateral (select nx.tenant_id not in (select tenant_id from tenant_full) as ok offset 0) fr
    where w.got < slots and not (nx.wrapped and nx.tenant_id > w.start)
  ),
  candidate as materialized (
    select w.priority, w.graph_id, w.pin, w.tenant_id, coalesce(t.max_running, tenant_max, 1000000) - coalesce(b.n, 0) as free,
      (w.tenant_id <= w.start) as lap, h.run_id, h.seq,
      (select c.passed from claim_cursor c where c.priority = w.priority) as passed
    from (select * from walk where ok) w
    join graph_free g using (graph_id)
    join tenants t using (tenant_id)
    left join tenant_busy b using (tenant_id)
    cross join lateral (
      select r.run_id, r.seq
      from runs r
      where r.status = 'pending' and r.head and r.available_at is null
        and r.priority = w.priority and r.graph_id = w.graph_id and r.pin = w.pin and r.tenant_id = w.tenant_id
      order by r.seq
      limit least(slots, coalesce(t.max_running, tenant_max, 1000000) - coalesce(b.n, 0), g.free)
    ) h
  ),
  turned as (
    select *, row_number() over (partition by priority, tenant_id order by seq) as turn
    from candidate
  ),
  shared as (
    select *,
      priority > 0 and row_number() over (partition by priority order by turn, lap, tenant_id) <= (passed + slots) / 10 as owed
    from turned
  ),
  ranked as (
    select *, row_number() over (partition by tenant_id order by owed desc, priority, seq) as tenant_rank
    from shared
  ),
  within_tenant as (
    select ranked.*,
      row_number() over (
        partition by ranked.graph_id
        order by ranked.owed desc, ranked.priority, ranked.turn, ranked.lap, ranked.tenant_id) as graph_rank
    from ranked
    where tenant_rank <= free
  ),
  pick as materialized (
    select t.*
    from within_tenant t
    join graph_free g using (graph_id)
    where t.graph_rank <= g.free
    order by t.owed desc, t.priority, t.turn, t.lap, t.tenant_id
    limit slots
  ),
  locked as materialized (
    select r.tenant_id, r.run_id
    from runs r
    where (r.tenant_id, r.run_id, r.pin) in (select tenant_id, run_id, pin from pick)
      and r.status = 'pending' and r.head and r.available_at is null
    order by r.run_id
    for no key update skip locked
  ),
  claimed as (
    update runs r
    set status = 'running', attempt = r.attempt + 1, commit_no = 0, lease_owner = owner, waits_for = null,
      lease_expires_at = clock_timestamp() + lease_ms * interval '1 ms',
      started_at = coalesce(r.started_at, clock_timestamp()), updated_at = clock_timestamp(),
      agent_version = g.version, pin = case when r.stays then g.version else r.pin end
    from locked, graph_free g
    where r.tenant_id = locked.tenant_id and r.run_id = locked.run_id and g.graph_id = r.graph_id
    returning r.tenant_id, r.run_id, r.thread_id, r.assistant_id, r.graph_id, r.attempt, r.priority, r.begun, r.crashes,
      r.metadata, r.request, r.provider, r.cheaper, r.conversation_id, r.followup_id, r.followup_part
  ),
  logged as (
    insert into events (tenant_id, run_id, thread_id, attempt, type, payload)
    select tenant_id, run_id, thread_id, attempt, 'run.claimed', jsonb_build_object('owner', owner)
    from claimed
  ),
  moved_cursor as (
    update claim_cursor c
    set tenant_id = coalesce(x.tenant_id, c.tenant_id), passed = coalesce(s.passed, c.passed)
    from claim_cursor before
    left join (
      select distinct on (priority) priority, tenant_id
      from pick
      where turn = 1
      order by priority, lap desc, tenant_id desc
    ) x using (priority)
    left join (
      select w.priority, greatest(0, least(w.passed, 1000000)
        + (select count(*) from pick p where p.priority < w.priority)
        - 9 * (select count(*) from pick p where p.priority = w.priority))::int as passed
      from (select distinct priority, passed from candidate where priority > 0) w
    ) s using (priority)
    where c.priority = before.priority and (x.tenant_id <> c.tenant_id or s.passed <> c.passed)
  )
  select c.tenant_id, c.run_id, c.thread_id, c.assistant_id, c.graph_id, c.attempt, c.priority, c.begun, c.crashes,
    c.metadata, c.request,
    not exists (select 1 from checkpoints p where p.tenant_id = c.tenant_id and p.thread_id = c.thread_id),
    c.provider, c.cheaper,
    exists (
      select 1
      from budgets b
      where b.tenant_id = c.tenant_id
        and (b.scope, b.ref_id) in (('run', c.run_id::text), ('thread', c.thread_id::text), ('day', c.tenant_id))),
    c.conversation_id, c.followup_id, c.followup_part
  from claimed c;
end
$function$


CREATE OR REPLACE FUNCTION perdure.conversation_reachable()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  select f.tenant_id, gen_random_uuid(), 'followup', f.followup_id, clock_timestamp()
  from followups f
  where f.tenant_id = new.tenant_id and f.conversation_id = new.conversation_id and f.status = 'parked'
  order by f.followup_id
  on conflict (tenant_id, kind, ref_id) where status = 'due'
  do update set due_at = least(timers.due_at, excluded.due_at), updated_at = clock_timestamp();
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.fits(attributes jsonb, wanted jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select coalesce(bool_and(case w ->> 'op'
    when 'eq' then has is not null and has = w -> 'value'
    when 'ne' then has is distinct from w -> 'value'
    when 'in' then has is not null and (w -> 'value') @> jsonb_build_array(has)
    when 'exists' then coalesce(jsonb_typeof(has), 'null') <> 'null'
    when 'absent' then coalesce(jsonb_typeof(has), 'null') = 'null'
    else case
      when jsonb_typeof(has) is distinct from jsonb_typeof(w -> 'value') then false
      when jsonb_typeof(has) = 'number' then case w ->> 'op'
        when 'lt' then (has #>> '{}')::numeric < (w ->> 'value')::numeric
        when 'lte' then (has #>> '{}')::numeric <= (w ->> 'value')::numeric
        when 'gt' then (has #>> '{}')::numeric > (w ->> 'value')::numeric
        when 'gte' then (has #>> '{}')::numeric >= (w ->> 'value')::numeric
        else false end
      when jsonb_typeof(has) = 'string' then case w ->> 'op'
        when 'lt' then (has #>> '{}') collate "C" < (w ->> 'value')
        when 'lte' then (has #>> '{}') collate "C" <= (w ->> 'value')
        when 'gt' then (has #>> '{}') collate "C" > (w ->> 'value')
        when 'gte' then (has #>> '{}') collate "C" >= (w ->> 'value')
        else false end
      else false end
    end), true)
  from (select w, attributes -> (w ->> 'attribute') as has from jsonb_array_elements(wanted) w) each_one
$function$


CREATE OR REPLACE FUNCTION perdure.follow_pin(tenant text, assistant uuid, after uuid, most integer, OUT moved integer, OUT held integer, OUT last uuid)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  said text := pin_said(tenant, assistant);
  found uuid[];
  free uuid[];
begin
  found := array(select o.thread_id from off_pin(tenant, assistant, said, after, most) o);
  free := array(
    select t.thread_id
    from threads t
    where t.tenant_id = tenant and t.thread_id = any(found)
    order by t.thread_id
    for no key update skip locked);
  with locked as materialized (
    select r.tenant_id, r.run_id
    from runs r
    where r.tenant_id = tenant and r.thread_id = any(free) and r.status in ('pending', 'running')
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.run_id
    for no key update
  )
  update runs r
  set stays = said = 'own',
    pin = case
      when said = 'latest' then ''
      when said <> 'own' then said
      when r.attempt > 0 then coalesce(r.agent_version, '')
      when r.resumes then last_version(r.tenant_id, r.thread_id)
      else ''
    end
  from locked
  where r.tenant_id = locked.tenant_id and r.run_id = locked.run_id;
  get diagnostics moved = row_count;
  held := cardinality(found) - cardinality(free);
  last := case when cardinality(found) = most then found[most] end;
end
$function$


CREATE OR REPLACE FUNCTION perdure.followup_failed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform set_due_timer(new.tenant_id, 'followup.tell', new.followup_id);
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.followup_run_ended()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' then
    update followups f
    set status = 'cancelled', reason = 'its run is gone', updated_at = clock_timestamp()
    where f.tenant_id = old.tenant_id and f.followup_id = old.followup_id and f.status in ('running', 'waiting_approval');
    return null;
  end if;
  update followups f
  set status = case
        when f.status in ('cancelled', 'produced') then f.status
        when new.status = 'success' and new.followup_part = 'tell' then 'produced'
        when new.status = 'success' then 'running'
        when new.status = 'interrupted' and new.waits_for = 'approval' then 'waiting_approval'
        when new.status = 'interrupted' then 'cancelled'
        else 'dead' end,
    reason = case
        when f.status in ('cancelled', 'produced') then f.reason
        when new.status = 'interrupted' and new.waits_for is null then 'its run was cancelled'
        when new.status not in ('success', 'interrupted') then new.error_code end,
    updated_at = clock_timestamp()
  where f.tenant_id = new.tenant_id and f.followup_id = new.followup_id;
  if new.status = 'success' and new.followup_part = 'work' then
    perform set_due_timer(new.tenant_id, 'followup.tell', new.followup_id);
  end if;
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.is_off_pin(pin text, stays boolean, said text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  select stays <> (said = 'own') or said <> 'own' and pin <> case when said = 'latest' then '' else said end
$function$


CREATE OR REPLACE FUNCTION perdure.is_suppressed(tenant text, conversation uuid, marketing boolean)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select exists (
    select 1
    from conversations c
    join suppressions s on s.tenant_id = c.tenant_id and s.channel_account_id = c.channel_account_id
      and s.address_key = c.address_key
    where c.tenant_id = tenant and c.conversation_id = conversation and (s.scope = 'all' or marketing)
  ) or exists (
    select 1
    from contact_conversations l
    join contacts p using (tenant_id, contact_id)
    join suppressions s on s.tenant_id = p.tenant_id and s.contact_key = p.key
    where l.tenant_id = tenant and l.conversation_id = conversation and (s.scope = 'all' or marketing)
  )
$function$


CREATE OR REPLACE FUNCTION perdure.is_web(tenant text, account uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select exists (
    select 1 from channel_accounts where tenant_id = tenant and channel_account_id = account and kind = 'web')
$function$


CREATE OR REPLACE FUNCTION perdure.last_version(tenant text, thread uuid)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce((
    select r.agent_version
    from runs r
    where r.tenant_id = tenant and r.thread_id = thread and r.agent_version is not null
    order by r.seq desc
    limit 1), '')
$function$


CREATE OR REPLACE FUNCTION perdure.leave_unsure(tenant text, delivery uuid, token uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  conversation uuid;
begin
  select conversation_id into conversation from deliveries where tenant_id = tenant and delivery_id = delivery;
  perform 1 from conversations where tenant_id = tenant and conversation_id = conversation for no key update;
  update deliveries
  set head = false, on_unknown = 'hold', updated_at = clock_timestamp()
  where tenant_id = tenant and delivery_id = delivery and current_token = token and status = 'unknown';
  perform next_delivery(tenant, conversation);
end
$function$


CREATE OR REPLACE FUNCTION perdure.log_delivery(d deliveries, happened text, code text)
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
  select r.tenant_id, r.thread_id, r.run_id, r.attempt, 'delivery.' || happened,
    jsonb_strip_nulls(jsonb_build_object('delivery_id', d.delivery_id, 'part', d.part, 'code', code))
  from runs r
  where r.tenant_id = d.tenant_id and r.run_id = d.run_id
$function$


CREATE OR REPLACE FUNCTION perdure.next_delivery(tenant text, conversation uuid, spacing_ms double precision DEFAULT 0)
 RETURNS void
 LANGUAGE sql
AS $function$
  update deliveries d
  set head = true, next_at = greatest(d.next_at, clock_timestamp() + spacing_ms * interval '1 ms')
  from (
    select delivery_id
    from deliveries
    where tenant_id = tenant and conversation_id = conversation and status = 'pending'
    order by seq
    limit 1
  ) n
  where d.tenant_id = tenant and d.delivery_id = n.delivery_id
    and not exists (select 1 from deliveries h where h.tenant_id = tenant and h.conversation_id = conversation and h.head)
$function$


CREATE OR REPLACE FUNCTION perdure.next_delivery_in_ms()
 RETURNS double precision
 LANGUAGE sql
AS $function$
  with first as (
    select greatest(
      (select min(d.next_at)
        from deliveries d
        where d.status = 'pending' and d.head and d.tenant_id = a.tenant_id and d.channel_account_id = a.channel_account_id),
      a.blocked_until,
      case when a.per_second is not null
        then a.tokens_at + (1 - a.tokens) / a.per_second * interval '1 s' end) as at
    from queued_accounts() w
    join channel_accounts a using (tenant_id, channel_account_id)
    where a.status = 'open'
    union all
    select min(next_at) from deliveries where status = 'unknown' and head
  )
  select extract(epoch from min(at) - clock_timestamp())::float8 * 1000 from first
$function$


CREATE OR REPLACE FUNCTION perdure.next_inbox_seq(tenant text, conversation uuid)
 RETURNS bigint
 LANGUAGE sql
AS $function$
  update conversations set last_seq = last_seq + 1 where tenant_id = tenant and conversation_id = conversation returning last_seq
$function$


CREATE OR REPLACE FUNCTION perdure.note_receipt(tenant text, account uuid, message_id text, said text, tok uuid, code text)
 RETURNS uuid
 LANGUAGE plpgsql
AS $function$
declare
  delivery uuid;
  conversation uuid;
  d deliveries;
begin
  insert into delivery_receipts (tenant_id, channel_account_id, provider_message_id, status, token, error_code)
  values (tenant, account, message_id, said, tok, code)
  on conflict do nothing;
  select a.delivery_id into delivery from delivery_attempts a where a.tenant_id = tenant and a.token = tok;
  if delivery is null then
    select r.delivery_id into delivery
    from deliveries r
    where r.tenant_id = tenant and r.channel_account_id = account and r.provider_message_id = message_id;
  end if;
  select r.conversation_id into conversation from deliveries r where r.tenant_id = tenant and r.delivery_id = delivery;
  if not found then return null; end if;
  perform 1 from conversations c where c.tenant_id = tenant and c.conversation_id = conversation for no key update;
  select * into d from deliveries r where r.tenant_id = tenant and r.delivery_id = delivery for no key update;
  if tok is not null and d.current_token is distinct from tok then
    -- Of a try that was given up. It arrived, and so may have the next.
    update deliveries r
    set duplicate = r.attempts > 1 and r.status in ('sending', 'sent', 'delivered', 'read')
    where r.tenant_id = tenant and r.delivery_id = delivery;
    if d.status <> 'unknown' then return null; end if;
  end if;
  if said = 'failed' then
    update deliveries r
    set status = case code when 'window_closed' then 'parked' else 'failed' end, error_code = code, head = false, lease_until = null, updated_at = clock_timestamp(),
      -- It went out, and whoever sent it won't count that any more.
      attempts = r.attempts + (r.status = 'sending')::int,
      provider_message_id = coalesce(r.provider_message_id, message_id), unknown_since = null,
      settled_at = clock_timestamp()
    where r.tenant_id = tenant and r.delivery_id = delivery and r.status in ('sending', 'unknown', 'sent');
  else
    update deliveries r
    set status = said, error_code = null, head = false, lease_until = null, updated_at = clock_timestamp(),
      attempts = r.attempts + (r.status = 'sending')::int,
      provider_message_id = coalesce(r.provider_message_id, message_id), unknown_since = null,
      settled_at = coalesce(r.settled_at, clock_timestamp())
    where r.tenant_id = tenant and r.delivery_id = delivery
      and array_position(array['sent', 'delivered', 'read'], said)
        > coalesce(array_position(array['sent', 'delivered', 'read'], r.status), 0)
      and r.status in ('sending', 'unknown', 'sent', 'delivered');
  end if;
  if found then
    perform log_delivery(d, said, code);
    perform next_delivery(tenant, conversation);
    if said = 'failed' and code = 'window_closed' then return conversation; end if;
  end if;
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.off_pin(tenant text, assistant uuid, said text, after uuid, most integer)
 RETURNS TABLE(thread_id uuid)
 LANGUAGE sql
 STABLE
AS $function$
  (select r.thread_id
    from runs r
    where r.tenant_id = tenant and r.status = 'pending' and r.thread_id > after
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.thread_id
    limit most)
  union
  (select r.thread_id
    from runs r
    where r.tenant_id = tenant and r.status = 'running' and r.thread_id > after
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.thread_id
    limit most)
  order by 1
  limit most
$function$


CREATE OR REPLACE FUNCTION perdure.pin_followed(tenant text, assistant uuid)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  said text := pin_said(tenant, assistant);
begin
  return not exists (
    select 1 from off_pin(tenant, assistant, said, '00000000-0000-0000-0000-000000000000', 1));
end
$function$


CREATE OR REPLACE FUNCTION perdure.pin_lock(tenant text, assistant uuid)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ select hashtextextended(tenant || ' ' || assistant::text, 7264861091) $function$


CREATE OR REPLACE FUNCTION perdure.pin_said(tenant text, assistant uuid)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock_shared(pin_lock(tenant, assistant));
  return coalesce(
    (select a.pin from assistants a where a.tenant_id = tenant and a.assistant_id = assistant), 'latest');
end
$function$


CREATE OR REPLACE FUNCTION perdure.post_deliveries(tenant text, posted json)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  n int;
begin
  perform 1
  from conversations
  where tenant_id = tenant and conversation_id in (select (p ->> 'conversation_id')::uuid from json_array_elements(posted) p)
  order by conversation_id
  for no key update;
  with new as (
    insert into deliveries (tenant_id, delivery_id, source_kind, source_id, part, thread_id, run_id, channel_account_id,
      conversation_id, kind, payload, payload_sha256, on_unknown, not_after, status, error_code)
    select tenant, (p ->> 'delivery_id')::uuid, p ->> 'source_kind', (p ->> 'source_id')::uuid, (p ->> 'part')::int,
      (p ->> 'thread_id')::uuid, (p ->> 'run_id')::uuid, c.channel_account_id, c.conversation_id, p ->> 'kind',
      convert_to(p ->> 'payload', 'UTF8'), sha256(convert_to(p ->> 'payload', 'UTF8')), p ->> 'on_unknown',
      (p ->> 'not_after')::timestamptz,
      case when p ->> 'suppressed' is not null then 'suppressed' when c.unreachable_at is null then 'pending' else 'parked' end,
      coalesce(p ->> 'suppressed', c.unreachable_code)
    from json_array_elements(posted) with ordinality as rows(p, position)
    join conversations c on c.tenant_id = tenant and c.conversation_id = (p ->> 'conversation_id')::uuid
    order by position
    on conflict on constraint deliveries_source do nothing
    returning conversation_id
  ), counted as (
    select count(*)::int as n from new
  )
  select counted.n into n from counted;
  perform next_delivery(tenant, c.conversation_id)
  from (select distinct (p ->> 'conversation_id')::uuid as conversation_id from json_array_elements(posted) p) c;
  return n;
end
$function$


CREATE OR REPLACE FUNCTION perdure.queued_accounts()
 RETURNS TABLE(tenant_id text, channel_account_id uuid)
 LANGUAGE sql
 STABLE
AS $function$
  with recursive walk(tenant_id, channel_account_id) as (
    (select d.tenant_id, d.channel_account_id
      from deliveries d
      where d.status = 'pending' and d.head
      order by d.tenant_id, d.channel_account_id
      limit 1)
    union all
    select n.tenant_id, n.channel_account_id
    from walk w
    cross join lateral (
      select d.tenant_id, d.channel_account_id
      from deliveries d
      where d.status = 'pending' and d.head
        and (d.tenant_id, d.channel_account_id) > (w.tenant_id, w.channel_account_id)
      order by d.tenant_id, d.channel_account_id
      limit 1
    ) n
  )
  select tenant_id, channel_account_id from walk
$function$


CREATE OR REPLACE FUNCTION perdure.recover_deliveries(unsure_after_ms double precision)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  lost record;
  n int := 0;
  left_at timestamptz;
begin
  for lost in
    select d.tenant_id, d.delivery_id, d.conversation_id, d.current_token
    from deliveries d
    where d.status = 'sending' and d.lease_until < clock_timestamp()
    order by d.lease_until
    limit 500
  loop
    perform 1
    from conversations
    where tenant_id = lost.tenant_id and conversation_id = lost.conversation_id
    for no key update skip locked;
    continue when not found;
    perform 1
    from deliveries
    where tenant_id = lost.tenant_id and delivery_id = lost.delivery_id and current_token = lost.current_token
      and status = 'sending' and lease_until < clock_timestamp()
    for no key update;
    continue when not found;
    select wire_started_at into left_at
    from delivery_attempts
    where tenant_id = lost.tenant_id and token = lost.current_token;
    n := n + 1;
    update deliveries
    set lease_until = null, updated_at = clock_timestamp(),
      status = case when left_at is null or on_unknown in ('resend', 'reserve_edit') then 'pending' else 'unknown' end,
      head = left_at is null or on_unknown <> 'hold',
      attempts = attempts + (left_at is not null)::int,
      error_code = case when left_at is not null then 'worker_lost' end,
      unknown_since = case when left_at is not null and on_unknown not in ('resend', 'reserve_edit') then clock_timestamp() end,
      next_at = clock_timestamp() + case when left_at is not null and on_unknown = 'reconcile' then unsure_after_ms else 0 end
        * interval '1 ms'
    where tenant_id = lost.tenant_id and delivery_id = lost.delivery_id;
    if left_at is not null then
      perform log_delivery(d, 'unknown', 'worker_lost')
      from deliveries d
      where d.tenant_id = lost.tenant_id and d.delivery_id = lost.delivery_id;
    end if;
    perform next_delivery(lost.tenant_id, lost.conversation_id);
  end loop;
  return n;
end
$function$


CREATE OR REPLACE FUNCTION perdure.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception '% rows never change', tg_table_name;
end
$function$


CREATE OR REPLACE FUNCTION perdure.resolve_delivery(tenant text, delivery uuid, how text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  conversation uuid;
  d deliveries;
begin
  select r.conversation_id into conversation from deliveries r where r.tenant_id = tenant and r.delivery_id = delivery;
  if not found then return false; end if;
  perform 1 from conversations c where c.tenant_id = tenant and c.conversation_id = conversation for no key update;
  select * into d from deliveries r where r.tenant_id = tenant and r.delivery_id = delivery for no key update;
  if not (d.status = 'unknown' or (how = 'again' and d.status in ('failed', 'parked', 'expired', 'suppressed'))) then
    return false;
  end if;
  update deliveries r
  set status = case how when 'again' then 'pending' else 'sent' end, head = false, refusals = 0, error_code = null,
    unknown_since = null, next_at = clock_timestamp(), not_after = case how when 'sent' then r.not_after end,
    settled_at = case how when 'sent' then clock_timestamp() end, updated_at = clock_timestamp()
  where r.tenant_id = tenant and r.delivery_id = delivery;
  perform log_delivery(d, case how when 'again' then 'again' else 'sent' end, 'by_hand');
  perform next_delivery(tenant, conversation);
  return true;
end
$function$


CREATE OR REPLACE FUNCTION perdure.run_pin(tenant text, assistant uuid, thread uuid, goes_on boolean, OUT pin text, OUT stays boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  said text := pin_said(tenant, assistant);
begin
  stays := said = 'own';
  pin := case when said = 'latest' then '' when not stays then said when goes_on then last_version(tenant, thread) else '' end;
end
$function$


CREATE OR REPLACE FUNCTION perdure.run_prune_due()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform set_due_timer(new.tenant_id, 'run.prune', new.run_id);
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.run_webhook_due()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform set_due_timer(new.tenant_id, 'run.webhook', new.run_id);
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.send_to_web()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  d deliveries;
begin
  if not is_web(new.tenant_id, new.channel_account_id) then return null; end if;
  update deliveries
  set status = 'sent', attempts = 1, provider_message_id = delivery_id::text, error_code = null, settled_at = clock_timestamp(),
    updated_at = clock_timestamp()
  where tenant_id = new.tenant_id and delivery_id = new.delivery_id
  returning * into d;
  perform log_delivery(d, 'sent', null);
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.sent_to_inbox()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not is_web(new.tenant_id, new.channel_account_id)
    or exists (select 1 from inbox_items where tenant_id = new.tenant_id and delivery_id = new.delivery_id) then
    return null;
  end if;
  insert into inbox_items (tenant_id, conversation_id, seq, delivery_id)
  values (new.tenant_id, new.conversation_id, next_inbox_seq(new.tenant_id, new.conversation_id), new.delivery_id);
  perform tell_inbox(new.conversation_id);
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.set_due_timer(of_tenant text, of_kind text, of_ref uuid)
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  values (of_tenant, gen_random_uuid(), of_kind, of_ref, clock_timestamp())
  on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing;
$function$


CREATE OR REPLACE FUNCTION perdure.settle_delivery(tenant text, delivery uuid, tok uuid, how text, message_id text, code text, after_ms double precision, counts boolean, spacing_ms double precision)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  d deliveries;
  conversation uuid;
begin
  select conversation_id into conversation from deliveries where tenant_id = tenant and delivery_id = delivery;
  if not found then return false; end if;
  perform 1 from conversations where tenant_id = tenant and conversation_id = conversation for no key update;
  update delivery_attempts
  set outcome = how, provider_message_id = message_id, error_code = code, settled_at = clock_timestamp()
  where tenant_id = tenant and token = tok;
  select * into d from deliveries where tenant_id = tenant and delivery_id = delivery for no key update;
  if not found then return false; end if;
  if d.current_token is distinct from tok then
    -- Given up and sent again since: the person may have it twice, but where it was put in the same place twice.
    if how = 'sent' and d.on_unknown <> 'reserve_edit' then
      update deliveries set duplicate = true where tenant_id = tenant and delivery_id = delivery;
    end if;
    return false;
  end if;
  -- A receipt was faster.
  if d.status not in ('sending', 'unknown') then return true; end if;
  -- Taken without an id: that is no reason to send it again.
  if how = 'unknown' and d.on_unknown in ('resend', 'reserve_edit') and code is distinct from 'unconfirmed' then
    how := 'later';
    counts := true;
  end if;
  update deliveries
  set lease_until = null, error_code = code, updated_at = clock_timestamp(),
    provider_message_id = coalesce(message_id, provider_message_id),
    reserved_message_id = case when code is distinct from 'place_gone' then reserved_message_id end,
    attempts = attempts + (how in ('sent', 'unknown') or (how = 'later' and counts and d.on_unknown in ('resend', 'reserve_edit')))::int,
    refusals = case when how = 'later' and counts then refusals + 1 when how = 'later' then refusals else 0 end,
    status = case how when 'later' then 'pending' else how end,
    -- What will be found out keeps its place.
    head = how = 'later' or (how = 'unknown' and on_unknown = 'reconcile'),
    next_at = case when how in ('later', 'unknown') then clock_timestamp() + after_ms * interval '1 ms' else next_at end,
    unknown_since = case when how = 'unknown' then coalesce(unknown_since, clock_timestamp()) end,
    settled_at = case when how in ('later', 'unknown') then null else clock_timestamp() end
  where tenant_id = tenant and delivery_id = delivery;
  if how in ('sent', 'unknown', 'failed', 'parked', 'expired', 'suppressed') then
    perform log_delivery(d, how, code);
  end if;
  perform next_delivery(tenant, conversation, spacing_ms);
  return true;
end
$function$


CREATE OR REPLACE FUNCTION perdure.settle_runs(owner text, wait boolean, move_after_ms double precision, keep_ephemeral_ms double precision, tenant_ids text[], thread_ids uuid[], run_ids uuid[], attempts integer[], statuses text[], waits text[], checkpoint_ids uuid[], wake_ats timestamp with time zone[], error_codes text[], error_types text[], error_previews text[], errors bytea[], first_ids bigint[], last_ids bigint[], lines text[], questions text[], posted text[])
 RETURNS TABLE(o_run_id uuid, o_how text, o_freed boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
  free uuid[];
  done uuid[];
  freed uuid[];
  withdrawn_tenants text[];
  withdrawn uuid[];
  limited boolean := exists (select 1 from graph_limits);
begin
  if wait then
    perform 1
    from threads
    where (tenant_id, thread_id) in (select * from unnest(tenant_ids, thread_ids))
    order by tenant_id, thread_id
    for no key update;
  end if;
  free := array(
    select u.run_id
    from (
      select tenant_id, thread_id
      from threads
      where (tenant_id, thread_id) in (select * from unnest(tenant_ids, thread_ids))
      order by tenant_id, thread_id
      for no key update skip locked
    ) t
    join unnest(tenant_ids, thread_ids, run_ids) u(tenant_id, thread_id, run_id) using (tenant_id, thread_id));

  perform 1
  from runs
  where (tenant_id, thread_id) in (
      select u.tenant_id, u.thread_id
      from unnest(tenant_ids, thread_ids, run_ids) u(tenant_id, thread_id, run_id)
      where u.run_id = any(free))
    and status in ('pending', 'running')
  order by run_id
  for no key update;

  with ended as (
    update runs r
    set status = u.status, head = false, lease_owner = null, lease_expires_at = null, waits_for = u.waits_for,
      result_checkpoint_id = u.checkpoint_id, error_code = u.error_code, error_type = u.error_type,
      error_preview = u.error_preview, error = u.error, content_moved_at = null,
      finished_at = clock_timestamp(), updated_at = clock_timestamp()
    from unnest(tenant_ids, run_ids, attempts, statuses, waits, checkpoint_ids, error_codes, error_types, error_previews,
      errors) u(tenant_id, run_id, attempt, status, waits_for, checkpoint_id, error_code, error_type, error_preview, error)
    where r.tenant_id = u.tenant_id and r.run_id = u.run_id and r.attempt = u.attempt
      and r.status = 'running' and r.lease_owner = owner and r.run_id = any(free)
    returning r.run_id
  )
  select coalesce(array_agg(run_id), '{}') into done from ended;

  insert into stream_chunks (tenant_id, run_id, first_id, last_id, lines)
  select u.tenant_id, u.run_id, u.first_id, u.last_id, u.lines
  from unnest(tenant_ids, run_ids, first_ids, last_ids, lines) u(tenant_id, run_id, first_id, last_id, lines)
  where u.run_id = any(done) and u.lines is not null
  on conflict do nothing;

  insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
  select u.tenant_id, u.thread_id, u.run_id, u.attempt, 'run.settled',
    jsonb_strip_nulls(jsonb_build_object('outcome', u.status, 'code', u.error_code, 'type', u.error_type))
  from unnest(tenant_ids, thread_ids, run_ids, attempts, statuses, error_codes, error_types)
    u(tenant_id, thread_id, run_id, attempt, status, error_code, error_type)
  where u.run_id = any(done);

  -- Where the graph had no place for an answer nothing was done with it: the questions are open again, with their times anew,
  -- since a deadline that is over would let nobody answer.
  with reopened as (
    update approvals a
    set status = 'pending', decided_at = null, decided_by = null, decided_run_id = null, decision = null,
      deadline_at = clock_timestamp() + (a.policy ->> 'deadline_ms')::float8 * interval '1 ms'
    from unnest(tenant_ids, thread_ids, run_ids, error_codes) u(tenant_id, thread_id, run_id, error_code)
    where u.run_id = any(done) and u.error_code = 'graph_changed' and a.tenant_id = u.tenant_id
      and a.thread_id = u.thread_id and a.status = 'decided' and a.decided_run_id = u.run_id
    returning a.tenant_id, a.approval_id, a.policy
  )
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  select r.tenant_id, gen_random_uuid(), t.kind, r.approval_id,
    clock_timestamp() + (r.policy ->> t.after)::float8 * interval '1 ms'
  from reopened r
  cross join (values
    ('approval.deadline', 'deadline_ms'), ('approval.remind', 'remind_ms'), ('approval.escalate', 'escalate_ms')) t(kind, after)
  where r.policy ->> t.after is not null
  order by 1, 3, 4
  on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing;

  -- What the state doesn't wait for any more can't be answered.
  with closed as (
    update approvals a
    set status = 'withdrawn', decided_at = clock_timestamp(), withdrawn_reason = 'the thread moved on'
    from unnest(tenant_ids, thread_ids, run_ids, questions, error_codes)
      u(tenant_id, thread_id, run_id, questions, error_code)
    where u.run_id = any(done) and a.tenant_id = u.tenant_id and a.thread_id = u.thread_id and a.status = 'pending'
      and u.error_code is distinct from 'graph_changed'
      and not exists (select 1 from json_array_elements(u.questions::json) q where q ->> 'interrupt_id' = a.interrupt_id)
    returning a.tenant_id, a.approval_id
  )
  select array_agg(tenant_id), array_agg(approval_id) into withdrawn_tenants, withdrawn from closed;
  if withdrawn is not null then
    insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
    select a.tenant_id, a.thread_id, a.run_id, 0, 'approval.withdrawn',
      jsonb_build_object('interrupt_id', a.interrupt_id, 'reason', a.withdrawn_reason)
    from unnest(withdrawn_tenants, withdrawn) w(tenant_id, approval_id)
    join approvals a using (tenant_id, approval_id);
    update timers t
    set status = 'cancelled', updated_at = clock_timestamp()
    from unnest(withdrawn_tenants, withdrawn) w(tenant_id, approval_id)
    where t.tenant_id = w.tenant_id and t.ref_id = w.approval_id and t.status = 'due'
      and t.kind in ('approval.deadline', 'approval.remind', 'approval.escalate');
  end if;

  if exists (
    select 1 from unnest(run_ids, questions) u(run_id, questions) where u.run_id = any(done) and u.questions <> '[]')
  then
    -- One that is open already stays the same question, asked by this run now; one whose answer is on its way is not asked
    -- again; on the thread of a stateless run, which nobody sees, no answer could come.
    with asked as (
      insert into approvals (tenant_id, approval_id, thread_id, run_id, checkpoint_id, interrupt_id, node, form, actions,
        policy, deadline_at)
      select u.tenant_id, (q ->> 'approval_id')::uuid, u.thread_id, u.run_id, u.checkpoint_id, q ->> 'interrupt_id',
        q ->> 'node', q ->> 'form', (q ->> 'actions')::int, (q -> 'policy')::jsonb,
        clock_timestamp() + (q -> 'policy' ->> 'deadline_ms')::float8 * interval '1 ms'
      from unnest(tenant_ids, thread_ids, run_ids, checkpoint_ids, questions)
        u(tenant_id, thread_id, run_id, checkpoint_id, questions)
      join threads t on t.tenant_id = u.tenant_id and t.thread_id = u.thread_id and not t.ephemeral
      cross join lateral json_array_elements(u.questions::json) with ordinality asks(q, position)
      where u.run_id = any(done) and not exists (
        select 1
        from approvals d
        join runs r on r.tenant_id = d.tenant_id and r.run_id = d.decided_run_id and r.status in ('pending', 'running')
        where d.tenant_id = u.tenant_id and d.thread_id = u.thread_id and d.interrupt_id = q ->> 'interrupt_id'
          and d.status = 'decided')
      order by 1, 3, position
      on conflict (tenant_id, thread_id, interrupt_id) where status = 'pending'
      do update set run_id = excluded.run_id, checkpoint_id = excluded.checkpoint_id
      returning tenant_id, thread_id, run_id, approval_id, policy, deadline_at
    ), timed as (
      insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
      select a.tenant_id, gen_random_uuid(), t.kind, a.approval_id, t.due_at
      from asked a
      cross join lateral (values
        ('approval.deadline', a.deadline_at),
        ('approval.remind', clock_timestamp() + (a.policy ->> 'remind_ms')::float8 * interval '1 ms'),
        ('approval.escalate', clock_timestamp() + (a.policy ->> 'escalate_ms')::float8 * interval '1 ms')) t(kind, due_at)
      where t.due_at is not null
        -- One that was open already has its timers.
        and exists (
          select 1
          from unnest(questions) u(questions)
          cross join lateral json_array_elements(u.questions::json) q
          where q ->> 'approval_id' = a.approval_id::text)
      order by 1, 3, 4
      on conflict (tenant_id, kind, ref_id) where status = 'due' do nothing
    )
    insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
    select u.tenant_id, u.thread_id, u.run_id, u.attempt, 'approval.asked', jsonb_build_object('interrupt_ids', (
      select jsonb_agg(q -> 'interrupt_id') from jsonb_array_elements(u.questions::jsonb) q))
    from unnest(tenant_ids, thread_ids, run_ids, attempts, questions)
      u(tenant_id, thread_id, run_id, attempt, questions)
    where exists (select 1 from asked a where a.tenant_id = u.tenant_id and a.run_id = u.run_id);
  end if;

  -- A stateless run's thread goes soon: it is not worth a pack. But not while a person has to decide.
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  select w.tenant_id, gen_random_uuid(), w.kind, w.ref_id, w.due_at
  from (
    select u.tenant_id, case when g.goes then 'thread.delete' else 'move' end, u.thread_id,
      clock_timestamp() + case when g.goes then keep_ephemeral_ms else move_after_ms end * interval '1 ms'
    from unnest(tenant_ids, thread_ids, run_ids, waits) u(tenant_id, thread_id, run_id, waits_for)
    join threads t using (tenant_id, thread_id)
    cross join lateral (select t.ephemeral and u.waits_for is distinct from 'person' as goes) g
    where u.run_id = any(done)
    union all
    select u.tenant_id, 'run.wake', u.run_id, u.wake_at
    from unnest(tenant_ids, run_ids, wake_ats) u(tenant_id, run_id, wake_at)
    where u.run_id = any(done) and u.wake_at is not null
  ) w(tenant_id, kind, ref_id, due_at)
  order by 1, 3, 4
  on conflict (tenant_id, kind, ref_id) where status = 'due'
  do update set due_at = least(timers.due_at, excluded.due_at), updated_at = clock_timestamp();

  -- Inputs that come while a question is open wait for its answer, where it says so. When none is open they have their turn.
  update runs r
  set waits_for = case when u.holds or (u.asks and r.followup_part = 'tell') then 'approval' when r.available_at is not null then 'timer' end
  from (
    select tenant_id, thread_id, exists (
      select 1
      from approvals a
      where a.tenant_id = e.tenant_id and a.thread_id = e.thread_id and a.status = 'pending'
        and a.policy ->> 'on_message' = 'queue') as holds, exists (
      select 1
      from approvals a
      where a.tenant_id = e.tenant_id and a.thread_id = e.thread_id and a.status = 'pending') as asks
    from unnest(tenant_ids, thread_ids, run_ids) e(tenant_id, thread_id, run_id)
    where e.run_id = any(done)
  ) u
  where r.tenant_id = u.tenant_id and r.thread_id = u.thread_id and r.status = 'pending' and not r.head
    and r.kind = 'run' and (not r.resumes or r.followup_part = 'tell') and (r.available_at is null or r.merge_until is not null)
    and (u.holds or (u.asks and r.followup_part = 'tell')) = (r.waits_for is distinct from 'approval');

  -- What they say goes out. In the order of conversations, which are locked by it.
  perform post_deliveries(p.tenant_id, p.posted::json)
  from (
    select u.tenant_id, u.posted
    from unnest(tenant_ids, run_ids, posted) u(tenant_id, run_id, posted)
    where u.run_id = any(done) and u.posted is not null
    order by u.posted::json -> 0 ->> 'conversation_id'
  ) p;

  -- The next of each thread, if one may start.
  with next as (
    select distinct on (u.run_id) u.run_id as ended_id, r.tenant_id, r.run_id
    from unnest(tenant_ids, thread_ids, run_ids) u(tenant_id, thread_id, run_id)
    join runs r on r.tenant_id = u.tenant_id and r.thread_id = u.thread_id
      and r.status = 'pending' and (r.available_at is null or r.merge_until is not null)
      and r.waits_for is distinct from 'approval'
    where u.run_id = any(done)
      and not exists (select 1 from runs h where h.tenant_id = u.tenant_id and h.thread_id = u.thread_id and h.head)
    order by u.run_id, r.seq
  ), made as (
    update runs r
    set head = true
    from next n
    where r.tenant_id = n.tenant_id and r.run_id = n.run_id
    returning n.ended_id
  )
  select coalesce(array_agg(ended_id), '{}') into freed from made;

  update threads t
  set status = case
      when exists (
        select 1
        from runs r
        where r.tenant_id = u.tenant_id and r.thread_id = u.thread_id and r.status in ('pending', 'running')
          and r.waits_for is distinct from 'approval') then 'busy'
      when u.status = 'success' then 'idle'
      when u.error_code = 'graph_changed' and exists (
        select 1
        from approvals a
        where a.tenant_id = u.tenant_id and a.thread_id = u.thread_id and a.status = 'pending') then 'interrupted'
      else u.status end,
    updated_at = clock_timestamp(), state_updated_at = clock_timestamp()
  from unnest(tenant_ids, thread_ids, run_ids, statuses, error_codes) u(tenant_id, thread_id, run_id, status, error_code)
  where u.run_id = any(done) and t.tenant_id = u.tenant_id and t.thread_id = u.thread_id;

  return query
  select u.run_id,
    case when u.run_id = any(done) then 'done' when wait or u.run_id = any(free) then 'lost' else 'locked' end,
    -- Where runs are held back by limits, each that ends lets another start.
    u.run_id = any(freed) or limited or exists (
      select 1 from tenants t where t.tenant_id = u.tenant_id and t.max_running < 1000000)
  from unnest(tenant_ids, run_ids) u(tenant_id, run_id);
end
$function$


CREATE OR REPLACE FUNCTION perdure.start_delivery(tenant text, delivery uuid, token uuid)
 RETURNS TABLE(o_lease_ms double precision, o_expired boolean, o_silent_ms double precision, o_address jsonb)
 LANGUAGE sql
AS $function$
  with mine as (
    select d.tenant_id, d.delivery_id, d.lease_until, d.not_after, d.conversation_id
    from deliveries d
    where d.tenant_id = tenant and d.delivery_id = delivery and d.current_token = token and d.status = 'sending'
      and d.lease_until > clock_timestamp()
    for no key update
  ), marked as (
    update delivery_attempts a
    set wire_started_at = clock_timestamp()
    from mine
    where a.tenant_id = mine.tenant_id and a.token = start_delivery.token
      and (mine.not_after is null or mine.not_after > clock_timestamp())
  )
  select extract(epoch from m.lease_until - clock_timestamp())::float8 * 1000,
    coalesce(m.not_after <= clock_timestamp(), false),
    extract(epoch from clock_timestamp() - c.last_inbound_at)::float8 * 1000, c.address
  from mine m
  join conversations c using (tenant_id, conversation_id)
$function$


CREATE OR REPLACE FUNCTION perdure.store_similarity(a real[], b real[])
 RETURNS double precision
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT COST 10000
AS $function$
declare
  sum float8 := 0;
begin
  for i in 1 .. cardinality(b) loop
    sum := sum + a[i] * b[i];
  end loop;
  return sum;
end
$function$


CREATE OR REPLACE FUNCTION perdure.suppress_deliveries(tenant text, followup uuid, OUT o_suppressed integer, OUT o_left integer)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  conversation uuid;
begin
  select d.conversation_id into conversation
  from deliveries d
  where d.tenant_id = tenant and d.source_kind in ('followup', 'outreach') and d.source_id = followup
  limit 1;
  perform 1 from conversations c where c.tenant_id = tenant and c.conversation_id = conversation for no key update;
  with stopped as (
    update deliveries d
    set status = 'suppressed', head = false, error_code = 'cancelled', settled_at = clock_timestamp(),
      updated_at = clock_timestamp()
    where d.tenant_id = tenant and d.source_kind in ('followup', 'outreach') and d.source_id = followup and d.status in ('pending', 'parked')
    returning 1
  )
  select count(*)::int into o_suppressed from stopped;
  select count(*)::int into o_left
  from deliveries d
  where d.tenant_id = tenant and d.source_kind in ('followup', 'outreach') and d.source_id = followup
    and d.status in ('sending', 'sent', 'delivered', 'read', 'unknown');
  if conversation is not null then
    perform next_delivery(tenant, conversation);
  end if;
end
$function$


CREATE OR REPLACE FUNCTION perdure.take_inbox(tenant text, conversation uuid, up_to bigint, seen boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  c conversations;
  d deliveries;
  had bigint;
  until bigint;
begin
  select * into c
  from conversations
  where tenant_id = tenant and conversation_id = conversation;
  had := case when seen then c.read_seq else c.received_seq end;
  until := least(up_to, c.last_seq);
  if until is null or until <= had then return; end if;
  perform 1 from conversations where tenant_id = tenant and conversation_id = conversation for no key update;
  update conversations
  set received_seq = greatest(received_seq, until), read_seq = case when seen then greatest(read_seq, until) else read_seq end
  where tenant_id = tenant and conversation_id = conversation;
  for d in
    update deliveries r
    set status = case when seen then 'read' else 'delivered' end, updated_at = clock_timestamp()
    from inbox_items i
    where i.tenant_id = tenant and i.conversation_id = conversation and i.seq <= until and i.seq > had
      and r.tenant_id = i.tenant_id and r.delivery_id = i.delivery_id
      and (r.status = 'sent' or (seen and r.status = 'delivered'))
    returning r.*
  loop
    perform log_delivery(d, d.status, null);
  end loop;
  perform tell_inbox(conversation);
end
$function$


CREATE OR REPLACE FUNCTION perdure.tell_inbox(conversation uuid)
 RETURNS void
 LANGUAGE sql
AS $function$
  select pg_notify('perdure', 'db inbox:' || conversation)
$function$


CREATE OR REPLACE FUNCTION perdure.tell_reminders(due json)
 RETURNS TABLE(o_timer_id uuid)
 LANGUAGE sql
AS $function$
  with asked as (
    select *
    from json_to_recordset(due) as a(tenant_id text, timer_id uuid, followup_id uuid, thread_id uuid, run_id uuid,
      assistant_id uuid, graph_id text, priority smallint, metadata_below jsonb, metadata jsonb, request text)
  ), free as materialized (
    select t.tenant_id, t.thread_id, t.metadata
    from threads t
    where (t.tenant_id, t.thread_id) in (select tenant_id, thread_id from asked)
      and t.status in ('idle', 'error') and not t.ephemeral and t.config = '{}'
    order by t.tenant_id, t.thread_id
    for no key update skip locked
  ), claimed as materialized (
    select r.tenant_id, r.timer_id
    from timers r
    where (r.tenant_id, r.timer_id) in (
        select a.tenant_id, a.timer_id from asked a join free using (tenant_id, thread_id))
      and r.status = 'due' and r.due_at <= clock_timestamp()
    order by r.timer_id
    for update skip locked
  ), mine as materialized (
    select f.tenant_id, f.followup_id
    from followups f
    where (f.tenant_id, f.followup_id) in (
        select a.tenant_id, a.followup_id from asked a join claimed using (tenant_id, timer_id))
      and f.status = 'pending' and f.mode = 'remind' and f.schedule_id is null and not f.cancel_on_inbound
      and (f.not_after is null or f.not_after > clock_timestamp())
      and not exists (
        select 1
        from runs o
        where o.tenant_id = f.tenant_id and o.run_id = f.origin_run_id and o.status in ('pending', 'running'))
      and not exists (
        select 1
        from conversations c
        where c.tenant_id = f.tenant_id and c.conversation_id = f.conversation_id and c.unreachable_at is not null)
    order by f.followup_id
    for no key update skip locked
  ), done as (
    update timers r
    set status = 'fired', attempts = r.attempts + 1, updated_at = clock_timestamp()
    from asked a
    join mine using (tenant_id, followup_id)
    where r.tenant_id = a.tenant_id and r.timer_id = a.timer_id
  ), taken as (
    update threads t
    set status = 'busy', updated_at = clock_timestamp(),
      metadata = t.metadata || jsonb_build_object('graph_id', a.graph_id, 'assistant_id', a.assistant_id)
    from asked a
    join mine using (tenant_id, followup_id)
    where t.tenant_id = a.tenant_id and t.thread_id = a.thread_id
  ), told as (
    update followups f
    set status = 'running', tell_run_id = a.run_id, updated_at = clock_timestamp()
    from asked a
    join mine using (tenant_id, followup_id)
    where f.tenant_id = a.tenant_id and f.followup_id = a.followup_id
    returning f.tenant_id, f.followup_id, f.conversation_id
  ), accepted as (
    insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, priority, head, multitask_strategy, metadata, request,
      resumes, pin, stays, conversation_id, followup_id, followup_part)
    select a.tenant_id, a.run_id, a.thread_id, a.assistant_id, a.graph_id,
      greatest(a.priority, (select best_priority from tenants p where p.tenant_id = a.tenant_id)), true, 'enqueue',
      a.metadata_below || free.metadata || a.metadata, convert_to(a.request, 'UTF8'), true, p.pin, p.stays, told.conversation_id,
      a.followup_id, 'tell'
    from asked a
    join told using (tenant_id, followup_id)
    join free using (tenant_id, thread_id)
    cross join lateral run_pin(a.tenant_id, a.assistant_id, a.thread_id, true) p
    returning tenant_id, thread_id, run_id, graph_id
  ), logged as (
    insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
    select tenant_id, thread_id, run_id, 0, 'run.created', jsonb_build_object('graph_id', graph_id)
    from accepted
  )
  select a.timer_id from asked a join mine using (tenant_id, followup_id)
$function$


CREATE OR REPLACE FUNCTION perdure.thread_ttl_due()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into timers (tenant_id, timer_id, kind, ref_id, due_at)
  values (new.tenant_id, gen_random_uuid(), 'thread.ttl', new.thread_id, new.updated_at + new.ttl_minutes * interval '1 minute')
  on conflict (tenant_id, kind, ref_id) where status = 'due'
  do update set due_at = excluded.due_at, updated_at = clock_timestamp()
  where excluded.due_at < timers.due_at;
  return null;
end
$function$


CREATE OR REPLACE FUNCTION perdure.threads_within(tenant text, wanted jsonb)
 RETURNS SETOF uuid
 LANGUAGE sql
 STABLE
AS $function$
  select t.thread_id from threads t where t.tenant_id = tenant and t.metadata @> wanted
$function$


CREATE OR REPLACE FUNCTION perdure.version_counts(tenant text, assistant uuid, read integer)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select exists (
    select 1 from assistants a where a.tenant_id = tenant and a.assistant_id = assistant and a.version = read)
$function$


CREATE OR REPLACE FUNCTION perdure.write_inbox(tenant text, conversation uuid, client_id text, said bytea)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  at bigint;
begin
  at := next_inbox_seq(tenant, conversation);
  insert into inbox_items (tenant_id, conversation_id, seq, client_message_id, payload)
  values (tenant, conversation, at, client_id, said);
  perform tell_inbox(conversation);
  return at;
end
$function$


view bodies as SELECT p.tenant_id,
    p.thread_id,
    b.hash,
    p.pack_id,
    b.block
   FROM (packs p
     CROSS JOIN LATERAL UNNEST(p.bodies, p.body_blocks) b(hash, block))
  WHERE (p.status = 'stored'::text);
