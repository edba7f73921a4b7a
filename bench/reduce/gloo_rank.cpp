// A rank of Gloo's all-reduce over TCP: gloo_rank CONTROL RANK FOLDER [ADDRESS]
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "reduce/peer.h"

namespace {

using rubato::bench::Member;

class Gloo final : public rubato::bench::Peer {
 public:
  Gloo(const Member& member, const std::string& folder, const char* address) : Peer(member) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore files(folder);
    // The two interfaces of Gloo do not share connections.
    for (auto* context : {&context_, &class_context_}) {
      gloo::rendezvous::PrefixStore store(context == &context_ ? "functions" : "classes", files);
      *context = std::make_shared<gloo::rendezvous::Context>(member.rank(), member.ranks());
      (*context)->setTimeout(std::chrono::seconds(20));
      (*context)->connectFullMesh(store, device);
    }
  }

  void prepare(std::size_t floats) override {
    chunked_.reset();
    halving_.reset();
    Peer::prepare(floats);
    const auto count = static_cast<int>(floats);
    chunked_ = std::make_unique<gloo::AllreduceRingChunked<float>>(
        class_context_, std::vector<float*>{data().data()}, count);
    halving_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
        class_context_, std::vector<float*>{data().data()}, count);
  }

 protected:
  void all_reduce(int variant) override {
    if (variant == 2) return chunked_->run();
    if (variant == 3) return halving_->run();
    using Algorithm = gloo::AllreduceOptions::Algorithm;
    gloo::AllreduceOptions options(context_);
    options.setOutput(data().data(), data().size());
    options.setAlgorithm(variant == 0 ? Algorithm::RING : Algorithm::BCUBE);
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
      gloo::sum<float>(out, a, b, count);
    });
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::shared_ptr<gloo::rendezvous::Context> class_context_;
  std::unique_ptr<gloo::AllreduceRingChunked<float>> chunked_;
  std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> halving_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fputs("gloo_rank: started by build/bin/reduce and nodes, not by hand\n", stderr);
    return 2;
  }
  try {
    const Member member(argv[1], std::atoi(argv[2]));
    Gloo gloo(member, argv[3], argc == 5 ? argv[4] : "127.0.0.1");
    rubato::bench::serve(member, gloo);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_rank: %s\n", error.what());
    return 1;
  }
  return 0;
}
