/** Several independent Redises that share a deployment, each with some of the shards. */

import type { Cluster, Redis } from "ioredis";
import { shown } from "./arguments.js";
import { InvalidMessage, name } from "./names.js";
import { MAX_SHARDS } from "./protocol.js";

/** One of several Redises, with a range of shards. */
export interface RedisNode {
  /** Recorded by every shard of the node; a shard refuses calls addressed to another node. */
  name: string;
  /** A connection to a Redis or a master behind sentinels, not to a cluster. */
  redis: Redis | Cluster;
  /** Inclusive ranges, such as `0-7,16-19`, including shards of a planned growth. Empty means none yet. */
  shards: string;
}

type Node = RedisNode & { redis: Redis };

/** The nodes, and the node of each shard. */
export class Several {
  readonly isCluster = false;

  private constructor(readonly nodes: readonly Node[], private readonly homes: number[]) {}

  static of(nodes: readonly RedisNode[]): Several {
    const homes: number[] = [];
    for (const [n, node] of nodes.entries()) {
      name("node", node.name);
      if (nodes.findIndex((other) => other.name === node.name) < n) throw new InvalidMessage(`two nodes have the name ${node.name}`);
      if (node.redis?.isCluster !== false) throw new InvalidMessage(`node ${node.name} needs a connection to one Redis, not to a cluster`);
      for (const shard of shardsOf(node.shards)) {
        const other = homes[shard];
        if (other !== undefined) throw new InvalidMessage(`shard ${shard} has two nodes: ${nodes[other]!.name} and ${node.name}`);
        homes[shard] = n;
      }
    }
    const missing = homes.findIndex((home) => home === undefined);
    if (missing >= 0) throw new InvalidMessage(`shard ${missing} has no node`);
    if (homes.length === 0) throw new InvalidMessage("no node is given");
    return new Several(nodes as Node[], homes);
  }

  /** Returns the same nodes with other connections, each made for the shards of the node. */
  by(connection: (redis: Redis, shards: number[]) => Redis): Several {
    const shards = (n: number) => [...this.homes.keys()].filter((shard) => this.homes[shard] === n);
    return new Several(this.nodes.map((node, n) => ({ ...node, redis: connection(node.redis, shards(n)) })), this.homes);
  }

  /** Returns the node of a shard; undefined if unknown. */
  node(shard: number): Node | undefined {
    return this.nodes[this.homes[shard] ?? -1];
  }

  /** Records the new node of a shard; false if the node or shard is unknown. */
  move(shard: number, name: string): boolean {
    const home = this.nodes.findIndex((node) => node.name === name);
    if (home < 0 || shard >= this.homes.length) return false;
    this.homes[shard] = home;
    return true;
  }

  /** Returns one shard per node. */
  firstShards(): number[] {
    return this.nodes.map((_, n) => this.homes.indexOf(n)).filter((shard) => shard >= 0);
  }

  missing(shard: number): Error {
    return new Error(`shard ${shard} has no node among those that were given, of 0 to ${this.homes.length - 1}: add the node that has it`);
  }
}

function shardsOf(ranges: string): number[] {
  if (ranges === "") return [];
  if (typeof ranges !== "string") throw new InvalidMessage("the shards of a node are text, ranges such as 0-7,16-19");
  return ranges.split(",").flatMap((text) => {
    const ends = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(text);
    const [low, high] = ends ? [Number(ends[1]), Number(ends[2] ?? ends[1])] : [1, 0];
    if (low > high || high >= MAX_SHARDS) {
      const form = `ranges of 0 to ${MAX_SHARDS - 1} with both ends, such as 0-7,16-19`;
      throw new InvalidMessage(`${shown(ranges)} is not a list of shards: ${form}`);
    }
    return Array.from({ length: high - low + 1 }, (_, n) => low + n);
  });
}
