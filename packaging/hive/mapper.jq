# The genesis file that hive gives, with the rules that its variables name.
def number: if . == null then empty else tonumber end;
def rule($key; $value): if $value == null then {} else {($key): ($value | number)} end;

. + {config: (
  {ethash: {}}
  + rule("chainId"; env.HIVE_CHAIN_ID)
  + rule("homesteadBlock"; env.HIVE_FORK_HOMESTEAD)
  + rule("daoForkBlock"; env.HIVE_FORK_DAO_BLOCK)
  + (if env.HIVE_FORK_DAO_VOTE == null then {} else {daoForkSupport: (env.HIVE_FORK_DAO_VOTE == "1")} end)
  + rule("eip150Block"; env.HIVE_FORK_TANGERINE)
  + rule("eip155Block"; env.HIVE_FORK_SPURIOUS)
  + rule("eip158Block"; env.HIVE_FORK_SPURIOUS)
  + rule("byzantiumBlock"; env.HIVE_FORK_BYZANTIUM)
  + rule("constantinopleBlock"; env.HIVE_FORK_CONSTANTINOPLE)
  + rule("petersburgBlock"; env.HIVE_FORK_PETERSBURG)
  + rule("istanbulBlock"; env.HIVE_FORK_ISTANBUL)
  + rule("muirGlacierBlock"; env.HIVE_FORK_MUIR_GLACIER // env.HIVE_FORK_MUIRGLACIER)
  + rule("berlinBlock"; env.HIVE_FORK_BERLIN)
  + rule("londonBlock"; env.HIVE_FORK_LONDON)
)}
