#include "compiler/Driver/Inspect.h"

#include "compiler/Driver/UserError.h"
#include "compiler/Report/Table.h"
#include "runtime/src/Text.h"
#include "runtime/src/WeightCache.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::driver {

namespace {

std::string digestText(const runtime::CacheDigest &digest) {
  return fmt::format("{:016x}{:016x}", digest[1], digest[0]);
}

std::string textOf(const std::string &path, const runtime::WeightCache &cache, bool checked) {
  report::Table table;
  table.addRow({"packed weights", runtime::formatBytes(cache.data().size())});
  table.addRow(
      {"checksums", fmt::format("{}{}", cache.blocks(), checked ? ", all right" : ", not compared")});
  table.addRow({"layouts", digestText(cache.header().key.layouts)});
  table.addRow({"sources", digestText(cache.header().key.sources)});
  return fmt::format("weights cache {}, {}\nformat {}\n\n{}", path,
                     runtime::formatBytes(cache.header().fileSize), cache.header().version, table.text());
}

std::string jsonOf(const runtime::WeightCache &cache, bool checked) {
  nlohmann::ordered_json json;
  json["kind"] = "weights cache";
  json["format"] = cache.header().version;
  json["bytes"] = cache.data().size();
  json["blocks"] = cache.blocks();
  json["checked"] = checked;
  json["layouts"] = digestText(cache.header().key.layouts);
  json["sources"] = digestText(cache.header().key.sources);
  return json.dump(2) + "\n";
}

} // namespace

std::string inspectWeightCache(const std::string &path, bool json, bool check) {
  runtime::Result<runtime::WeightCache> cache = runtime::WeightCache::open(path);
  if (!cache.ok()) {
    throw UserError(cache.status().code, cache.status().message);
  }
  if (runtime::Status status = check ? cache->checkData({}) : runtime::success(); !status.ok()) {
    throw UserError(status.code, status.message);
  }
  return json ? jsonOf(*cache, check) : textOf(path, *cache, check);
}

} // namespace smelt::driver
