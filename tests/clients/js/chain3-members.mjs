// The members of chain3, read from its object, and which of them were used.

import Chain3 from 'chain3';

/** The modules of the library that the interface has, too. */
const MODULES = ['mc', 'net', 'admin', 'txpool', 'personal', 'vnode', 'version'];

const UNKNOWN_METHOD = -32601;

/** A provider without answers, to create an object whose members can be read. */
const INERT = { send: () => null, sendAsync: () => {} };

/** Arguments that the name of a method may depend on: a hash, a number, names and options of filters. */
const FIRST_PARAMS = [`0x${'00'.repeat(32)}`, 1, 'latest', 'pending', {}];

/** The own and inherited properties of an object, without private ones. */
function described(object) {
    const found = new Map();
    for (let at = object; at && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
        for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
            const isPublic = name !== 'constructor' && !name.startsWith('_');
            if (isPublic && !found.has(name)) found.set(name, descriptor);
        }
    }
    return found;
}

/** The RPC methods that a function of the library may call. */
function methodsBehind(member) {
    if (!member.request) return [];
    if (!Object.hasOwn(member, 'call')) return [member.request().method];
    if (typeof member.call === 'string') return [member.call];
    const choose = member.call;
    return [...new Set(FIRST_PARAMS.map((first) => choose.apply({}, [[first]])))];
}

const asyncGetter = (name) => `get${name[0].toUpperCase()}${name.slice(1)}`;

/** Every member by name: whether it is a property or a function, and the RPC methods that it calls. */
export function members() {
    const chain3 = new Chain3(INERT);
    const found = new Map();
    for (const module of MODULES) {
        const object = chain3[module];
        for (const [name, { get, value }] of described(object)) {
            const member = `${module}.${name}`;
            const getter = asyncGetter(name);
            const behind = get && Object.getOwnPropertyDescriptor(object, getter)?.value;
            if (behind) found.set(member, { kind: 'property', methods: methodsBehind(behind), getter });
            else if (get) found.set(member, { kind: 'setting', methods: [] });
            else if (typeof value === 'function') found.set(member, { kind: 'function', methods: methodsBehind(value) });
        }
    }
    const { implementation } = chain3.mc.filter('latest');
    for (const [name, value] of Object.entries(implementation)) {
        found.set(`mc.filter.${name}`, { kind: 'filter', methods: methodsBehind(value) });
    }
    return found;
}

/** A provider that records which methods were answered. */
export class Recorder {
    constructor(provider) {
        this.provider = provider;
        this.answered = new Set();
        this.used = new Set();
    }

    isConnected() {
        return this.provider.isConnected();
    }

    send(payload) {
        const answer = this.provider.send(payload);
        this.#note(payload, answer);
        return answer;
    }

    sendAsync(payload, callback) {
        this.provider.sendAsync(payload, (error, answer) => {
            if (!error) this.#note(payload, answer);
            callback(error, answer);
        });
    }

    #note(payload, answer) {
        const answers = new Map([answer].flat().map((one) => [one?.id, one]));
        for (const { id, method } of [payload].flat()) {
            const one = answers.get(id);
            if (one && one.error?.code !== UNKNOWN_METHOD) this.answered.add(method);
        }
    }

    /** The names of the members that were called, by module. */
    byModule() {
        const modules = new Map(MODULES.map((module) => [module, []]));
        for (const member of [...this.used].sort()) {
            const [module, name] = member.split('.');
            modules.get(module).push(name);
        }
        return modules;
    }

    /**
     * The members that were not called, or for which a served method gave no answer; and the members
     * without any served method.
     */
    coverage(served) {
        const missing = [];
        const absent = [];
        for (const [member, { kind, methods }] of members()) {
            const wanted = methods.filter((method) => served.has(method));
            if (methods.length > 0 && wanted.length === 0) {
                absent.push(member);
                continue;
            }
            // A filter calls its methods by a timer, so only the methods show that it was used.
            const isUsed = kind === 'filter' || this.used.has(member);
            const unanswered = wanted.filter((method) => !this.answered.has(method));
            if (!isUsed || unanswered.length > 0) missing.push([member, ...unanswered].join(' '));
        }
        return { missing, absent };
    }
}
