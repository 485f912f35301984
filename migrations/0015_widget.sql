-- The inbox of web conversations: what was said there, both ways, numbered in the order of its commits. A message to the person is its
-- delivery's row, and is there as soon as it is posted.
alter table conversations add column received_seq bigint not null default 0;

create table inbox_items (
  tenant_id text collate "C" not null,
  conversation_id uuid not null,
  seq bigint not null,
  -- A message to the person; what it says stands in the delivery.
  delivery_id uuid,
  -- What the person wrote, by the id that their browser gave it: JSON, and content.
  client_message_id text collate "C",
  payload bytea,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, conversation_id, seq),
  foreign key (tenant_id, conversation_id) references conversations on delete cascade,
  foreign key (tenant_id, delivery_id) references deliveries on delete cascade,
  constraint inbox_items_author check (
    (delivery_id is null) = (client_message_id is not null) and (client_message_id is null) = (payload is null))
);
create unique index inbox_items_delivery on inbox_items (tenant_id, delivery_id) where delivery_id is not null;
create unique index inbox_items_client_message on inbox_items (tenant_id, conversation_id, client_message_id)
  where client_message_id is not null;

-- Browsers ask which pages may speak to us before they say whose they are.
create index channel_accounts_origins on channel_accounts using gin ((settings -> 'allowed_origins')) where kind = 'web';

-- Told when this is committed, to every process that listens; `db` stands where a process gives its own name.
create function tell_inbox(conversation uuid) returns void
language sql volatile as $tell$
  select pg_notify('perdure', 'db inbox:' || conversation)
$tell$;

-- The number after the last one, under the lock of the conversation: a reader that has seen 12 has seen 11.
create function next_inbox_seq(tenant text, conversation uuid) returns bigint
language sql volatile as $seq$
  update conversations set last_seq = last_seq + 1 where tenant_id = tenant and conversation_id = conversation returning last_seq
$seq$;

-- What the person wrote.
create function write_inbox(tenant text, conversation uuid, client_id text, said bytea) returns bigint
language plpgsql volatile as $write$
declare
  at bigint;
begin
  at := next_inbox_seq(tenant, conversation);
  insert into inbox_items (tenant_id, conversation_id, seq, client_message_id, payload)
  values (tenant, conversation, at, client_id, said);
  perform tell_inbox(conversation);
  return at;
end
$write$;

-- Whether the account of a message is of kind web.
create function is_web(tenant text, account uuid) returns boolean
language sql stable as $web$
  select exists (
    select 1 from channel_accounts where tenant_id = tenant and channel_account_id = account and kind = 'web')
$web$;

-- A message to somebody in the web has nowhere to be sent: it is as soon as it is posted. Only what a schedule wants to say is left to a
-- deliverer, which judges it once more. A trigger, since messages are posted from several places.
create function send_to_web() returns trigger
language plpgsql as $send$
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
$send$;

create trigger send_to_web after insert on deliveries
  for each row
  when (new.source_kind <> 'outreach')
  execute function send_to_web();

-- What is sent to somebody in the web is in their inbox, however it came to be sent, and once.
create function sent_to_inbox() returns trigger
language plpgsql as $inbox$
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
$inbox$;

create trigger sent_to_inbox after update of status on deliveries
  for each row
  when (new.status = 'sent' and old.status <> 'sent')
  execute function sent_to_inbox();

-- A client has everything up to there, or the person has seen it: delivered, or read. Numbers only grow.
create function take_inbox(tenant text, conversation uuid, up_to bigint, seen boolean) returns void
language plpgsql volatile as $take$
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
$take$;
