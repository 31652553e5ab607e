// A collector of OpenTelemetry spans. It writes its port, collects until its standard input ends, and then writes
// what came as a list of JSON objects.

import { loadPackageDefinition, Server, ServerCredentials } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const file = join(dirname(fileURLToPath(import.meta.url)), 'otlp.proto');
const { TraceService } = loadPackageDefinition(loadSync(file, { longs: String, keepCase: true })).opentelemetry.proto.collector.trace.v1;

const spans = [];
const hex = (bytes) => Buffer.from(bytes ?? []).toString('hex');
const values = (attributes) =>
    Object.fromEntries((attributes ?? []).map(({ key, value }) => [key, value?.[value.value] ?? Object.values(value ?? {})[0]]));

function collect({ resource_spans: resources }) {
    for (const { resource, scope_spans: scopes } of resources) {
        for (const { spans: part } of scopes) {
            for (const span of part) {
                spans.push({
                    service: values(resource.attributes)['service.name'],
                    trace: hex(span.trace_id),
                    id: hex(span.span_id),
                    parent: hex(span.parent_span_id),
                    name: span.name,
                    nanoseconds: Number(BigInt(span.end_time_unix_nano) - BigInt(span.start_time_unix_nano)),
                    attributes: values(span.attributes),
                    status: span.status?.code ?? 0,
                });
            }
        }
    }
}

const server = new Server();
server.addService(TraceService.service, {
    Export: ({ request }, answer) => {
        collect(request);
        answer(null, {});
    },
});
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    console.log(port);
});
process.stdin.resume();
process.stdin.on('end', () => {
    console.log(JSON.stringify(spans));
    process.exit(0);
});
